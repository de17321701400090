// Unmap, release, and the undo of a release that fails.
#include "shim/pause/release_piece.h"

#include "shim/cuda/cuda_error.h"

namespace parkade::shim {

Result<void> ReleasePiece(const Driver& driver, DeviceMemory& memory, const Range& range,
                          Piece& piece) {
  size_t unmapped = 0;
  const CUresult unmap = memory.Unmap(range, piece, &unmapped);
  const CUresult release = unmap == CUDA_SUCCESS ? driver.mem_release(piece.handle) : unmap;
  if (release == CUDA_SUCCESS) {
    piece.handle = 0;
    return {};
  }
  const auto at = (unsigned long long)(range.base + piece.offset);
  if (unmapped != 0 && (memory.MapAt(range, piece, piece.handle, unmapped) != CUDA_SUCCESS ||
                        memory.SetAccess(range, piece) != CUDA_SUCCESS)) {
    memory.UnmapAll(range, piece);
    if (unmap != CUDA_SUCCESS) driver.mem_release(piece.handle);
    piece.handle = 0;
  }
  return unmap != CUDA_SUCCESS ? CudaError(driver, unmap, "unmapping 0x%llx", at)
                               : CudaError(driver, release, "releasing the memory of 0x%llx", at);
}

}  // namespace parkade::shim
