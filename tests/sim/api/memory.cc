// cuMemAlloc, cuMemFree and what stands beside them: native memory of the current context.
#include "tests/sim/driver.h"
#include "tests/sim/graph.h"
#include "tests/sim/pool.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

// What a request takes from the GPU. The driver packs small requests into blocks of 2 MiB; here
// each has pages of its own and is charged for those.
Bytes Footprint(Bytes bytes) { return RoundUp(bytes, bytes > 1_MiB ? kGranularity : 4_KiB); }

CUresult Allocate(Context& context, RangeKind kind, Bytes bytes, CUdeviceptr* out) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Driver& sim = Sim();
  if (auto r = sim.captures.RefuseUnsafe(); r != CUDA_SUCCESS) return r;
  if (bytes > sim.settings.gpu_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  Range range;
  range.kind = kind;
  range.bytes = bytes;
  range.gpu = context.gpu;
  range.context = context.handle;
  if (auto r = Physical::Create(sim.account, context.gpu, Footprint(bytes), sim.settings.gpu_bytes,
                                &range.memory);
      r != CUDA_SUCCESS)
    return r;
  Address base = 0;
  if (auto r = sim.addresses.Place(std::move(range), &base); r != CUDA_SUCCESS) return r;
  *out = base;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  if (out != nullptr) *out = 0;  // whatever comes
  return CallIn<"cuMemAlloc_v2">(
      [&](Context& context) { return Allocate(context, RangeKind::kNative, bytes, out); });
}

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned) {
  return CallIn<"cuMemAllocManaged">(
      [&](Context& context) { return Allocate(context, RangeKind::kManaged, bytes, out); });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                            unsigned element_bytes) {
  if (out != nullptr) *out = 0;
  if (pitch != nullptr) *pitch = 0;
  return CallIn<"cuMemAllocPitch_v2">([&](Context& context) {
    // A width that no row can hold comes out as none.
    const Bytes row = RoundUp(width, 512);
    if (out == nullptr || pitch == nullptr || row == 0 || height == 0 ||
        (element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
      return CUDA_ERROR_INVALID_VALUE;
    *pitch = row;  // and stays where there is no such memory
    return Allocate(context, RangeKind::kNative, row * height, out);
  });
}

// Waits for all work of the context before the memory goes, as programs that free what a kernel
// still uses rely on. A thread without a context frees too, but not one whose context is destroyed.
CUresult cuMemFree_v2(CUdeviceptr base) {
  return Call<"cuMemFree_v2">([&] {
    std::shared_ptr<Context> context;
    const CUresult current = CurrentContext(&context);
    if (current != CUDA_SUCCESS && current != CUDA_ERROR_INVALID_CONTEXT) return current;
    if (base == 0) return CUDA_SUCCESS;
    Driver& sim = Sim();
    if (auto r = sim.captures.RefuseUnsafe(); r != CUDA_SUCCESS) return r;
    const auto found = sim.addresses.Find(base);
    if (!found || found->range.base != base ||
        (found->range.kind != RangeKind::kNative && found->range.kind != RangeKind::kManaged))
      return CUDA_ERROR_INVALID_VALUE;
    if (context == nullptr) context = sim.contexts.Find(found->range.context);
    const CUresult result = context == nullptr ? CUDA_SUCCESS : context->Drain();
    if (IsGraphMemory(base)) return result;
    if (const auto pool = FindPool(found->range.pool); pool != nullptr) {
      if (auto r = pool->Free(base); r != CUDA_SUCCESS) return r;
    } else if (!sim.addresses.Remove(base, found->range.kind)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return result;
  });
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (free != nullptr) *free = 0;
  if (total != nullptr) *total = 0;
  return CallIn<"cuMemGetInfo_v2">([&](Context& context) {
    Driver& sim = Sim();
    SettleLingering(sim.account);
    const Bytes all = sim.settings.gpu_bytes;
    const Bytes used = sim.account.Used(context.gpu);
    if (free != nullptr) *free = used < all ? all - used : 0;
    if (total != nullptr) *total = all;
    return CUDA_SUCCESS;
  });
}
