// cuMemPrefetchAsync: managed memory moves between host and GPU, in the account; its bytes are at
// one address on both.
#include "tests/sim/driver.h"

using namespace parkade;
using namespace parkade::sim;

CUresult cuMemPrefetchAsync_v2(CUdeviceptr at, size_t bytes, CUmemLocation to, unsigned flags,
                               CUstream stream) {
  return CallIn<"cuMemPrefetchAsync_v2">([&](Context& context) {
    const auto found = Sim().addresses.Find(at);
    if (bytes == 0 || flags != 0 || !found || found->range.kind != RangeKind::kManaged ||
        bytes > found->range.base + found->range.bytes - at)
      return CUDA_ERROR_INVALID_VALUE;
    const bool to_host = to.type == CU_MEM_LOCATION_TYPE_HOST;
    if (!to_host && (to.type != CU_MEM_LOCATION_TYPE_DEVICE || to.id != found->range.gpu))
      return CUDA_ERROR_INVALID_DEVICE;
    const auto memory = found->range.memory;
    const Bytes offset = at - found->range.base;
    return Enqueue(context, stream, CU_GRAPH_NODE_TYPE_EMPTY, [memory, offset, bytes, to_host] {
      return to_host ? memory->MoveToHost(offset, bytes)
                     : memory->MoveToGpu(offset, bytes, Sim().settings.gpu_bytes);
    });
  });
}
