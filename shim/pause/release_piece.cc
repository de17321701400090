// Unmap, release, and the undo of a release that fails.
#include "shim/pause/release_piece.h"

#include "shim/cuda/cuda_error.h"

namespace parkade::shim {

Result<void> ReleasePiece(const Driver& driver, DeviceMemory& memory, const Range& range,
                          Piece& piece) {
  const CUdeviceptr at = range.base + piece.offset;
  const CUresult unmapped = driver.mem_unmap(at, piece.bytes);
  if (unmapped != CUDA_SUCCESS) {
    return CudaError(driver, unmapped, "unmapping 0x%llx", (unsigned long long)at);
  }
  const CUresult released = driver.mem_release(piece.handle);
  if (released == CUDA_SUCCESS) {
    piece.handle = 0;
    return {};
  }
  if (driver.mem_map(at, piece.bytes, 0, piece.handle, 0) != CUDA_SUCCESS ||
      memory.SetAccess(at, piece.bytes, range.device) != CUDA_SUCCESS) {
    driver.mem_unmap(at, piece.bytes);
    piece.handle = 0;
  }
  return CudaError(driver, released, "releasing the memory of 0x%llx", (unsigned long long)at);
}

}  // namespace parkade::shim
