// cuMemHostAlloc and cuMemHostRegister: host memory that the driver knows.
#include <sys/mman.h>

#include "tests/sim/driver.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

Address HostAddress(const void* host) { return reinterpret_cast<Address>(host); }

CUresult Allocate(Context& context, void** out, Bytes bytes, unsigned flags) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (auto r = Sim().captures.RefuseUnsafe(); r != CUDA_SUCCESS) return r;
  const Bytes pages = RoundUp(bytes, 4_KiB);
  void* map = mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  Range range;
  range.kind = RangeKind::kPinned;
  range.base = HostAddress(map);
  range.bytes = bytes;
  range.mapped = pages;
  range.gpu = context.gpu;
  range.context = context.handle;
  range.flags = flags;
  if (auto r = Sim().addresses.AddHost(std::move(range)); r != CUDA_SUCCESS) return r;
  *out = map;
  return CUDA_SUCCESS;
}

// Whether every page is there and readable, found out as pinning does: by taking it.
bool CanPin(const void* host, Bytes bytes) {
  const Address first = HostAddress(host) / 4_KiB * 4_KiB;
  const Address end = RoundUp(HostAddress(host) + bytes, 4_KiB);
  return madvise(reinterpret_cast<void*>(first), end - first, MADV_POPULATE_READ) == 0;
}

// Memory mapped by cuMemMap, which passes for host memory here (580).
bool IsVirtual(const void* host) {
  const auto found = Sim().addresses.Find(HostAddress(host));
  return found && found->mapping;
}

// The pinned or registered range around `host`, or nothing.
std::optional<Range> Known(const void* host) {
  const auto found = Sim().addresses.Find(HostAddress(host));
  if (!found ||
      (found->range.kind != RangeKind::kPinned && found->range.kind != RangeKind::kRegistered))
    return std::nullopt;
  return found->range;
}

}  // namespace

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  return CallIn<"cuMemHostAlloc">(
      [&](Context& context) { return Allocate(context, out, bytes, flags); });
}

CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
  return CallIn<"cuMemAllocHost_v2">(
      [&](Context& context) { return Allocate(context, out, bytes, 0); });
}

CUresult cuMemFreeHost(void* host) {
  return CallIn<"cuMemFreeHost">([&](Context& context) {
    if (host == nullptr) return CUDA_SUCCESS;
    if (auto r = Sim().captures.RefuseUnsafe(); r != CUDA_SUCCESS) return r;
    const auto range = Known(host);
    if (!range || range->kind != RangeKind::kPinned || range->base != HostAddress(host))
      return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = context.Drain();
    Sim().addresses.Remove(range->base, RangeKind::kPinned);
    return result;
  });
}

CUresult cuMemHostRegister_v2(void* host, size_t bytes, unsigned flags) {
  return CallIn<"cuMemHostRegister_v2">([&](Context& context) {
    if (host == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (auto r = Sim().captures.RefuseUnsafe(); r != CUDA_SUCCESS) return r;
    const auto known = Sim().addresses.Find(HostAddress(host));
    if ((known && known->range.kind != RangeKind::kRegistered) || !CanPin(host, bytes))
      return CUDA_ERROR_INVALID_VALUE;
    Range range;
    range.kind = RangeKind::kRegistered;
    range.base = HostAddress(host);
    range.bytes = bytes;
    range.gpu = context.gpu;
    range.context = context.handle;
    range.flags = flags;
    return Sim().addresses.AddHost(std::move(range));
  });
}

CUresult cuMemHostUnregister(void* host) {
  return CallIn<"cuMemHostUnregister">([&](Context& context) {
    if (auto r = Sim().captures.RefuseUnsafe(); r != CUDA_SUCCESS) return r;
    const CUresult result = context.Drain();
    if (Sim().addresses.Remove(HostAddress(host), RangeKind::kRegistered)) return result;
    return Sim().addresses.Find(HostAddress(host)) ? CUDA_ERROR_INVALID_VALUE
                                                   : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* host, unsigned flags) {
  return CallIn<"cuMemHostGetDevicePointer_v2">([&](Context&) {
    if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!Known(host) && !IsVirtual(host)) {
      *out = 0;
      return CUDA_ERROR_INVALID_VALUE;
    }
    *out = HostAddress(host);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostGetFlags(unsigned* flags, void* host) {
  return CallIn<"cuMemHostGetFlags">([&](Context&) {
    const auto range = Known(host);
    if (flags == nullptr || (!range && !IsVirtual(host))) return CUDA_ERROR_INVALID_VALUE;
    *flags = range ? range->flags : CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
  });
}
