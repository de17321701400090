// Handlers of calls that hand memory to other processes or devices: CUDA IPC by tokens of our own
// (shim/ipc), for the driver's refuses memory of the heap; what is behind a dma-buf is held.
#include <unistd.h>

#include "common/bytes.h"
#include "shim/hooks/gate_pass.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/hooked.h"
#include "shim/hooks/native_answers.h"
#include "shim/ipc/import.h"

namespace parkade::shim {
namespace {

// Where descriptors of the allocation may end: with the page of the GPU that its last byte is in
// (580), which no other range of the heap has a part of.
CUdeviceptr EndOfPages(const AllocationView& a) { return RoundUp(a.base + a.bytes, kGpuPage); }

// Whether the driver goes on to look at the memory.
bool AreSound(const void* handle, CUdeviceptr ptr, size_t bytes, CUmemRangeHandleType type,
              unsigned long long flags) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  return handle != nullptr && type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD && bytes != 0 &&
         bytes % page == 0 && ptr % page == 0 && ptr + bytes > ptr &&
         (flags & ~uint64_t(CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE)) == 0;
}

// A descriptor that nobody can follow: whoever has it may hand it on, and pins what is behind it.
// So the range stays in HBM for as long as anything in it is allocated.
void KeepInPlace(Parts& parts, CUdeviceptr ptr, size_t bytes) {
  constexpr char kWhy[] = "memory that was exported as a dma-buf is held: it stays in HBM";
  parts.heap.virtual_memory().HoldMapped(ptr, bytes, kWhy);
  const auto allocation = parts.heap.Find(ptr);
  Heap::Shared shared;
  if (!allocation ||
      parts.heap.Hold(allocation->base, allocation->number, &shared) != Heap::Holding::kHeld) {
    return;
  }
  parts.ledger.AddWarning(kWhy);
}

}  // namespace

CUresult OnIpcGetMemHandle(Call<decltype(cuIpcGetMemHandle)> call, CUipcMemHandle* handle,
                           CUdeviceptr ptr) {
  const GatePass pass;
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  const Place place = parts == nullptr ? Place{} : PlaceOf(*parts, ptr);
  if (place.kind == Place::Kind::kNothing) return call.real(handle, kNowhere);
  if (place.kind == Place::Kind::kOther || handle == nullptr) return call.real(handle, ptr);
  if (auto refusal = RefusalOfThread(*parts, [&] { return call.real(handle, kNowhere); })) {
    return *refusal;
  }
  InShim guard;
  const auto token = parts->exports.Export(ptr);
  if (!token.ok()) {
    parts->ledger.AddWarning(token.error().what);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *handle = *token;
  return CUDA_SUCCESS;
}

CUresult OnIpcOpenMemHandle(Call<decltype(cuIpcOpenMemHandle_v2)> call, CUdeviceptr* out,
                            CUipcMemHandle handle, unsigned flags) {
  const auto token = ReadToken(handle);
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr || !token) {
    const GatePass pass;
    if (!pass) return kNoPass;
    return call.real(out, handle, flags);
  }
  // The driver wants this bit and looks at no other (580).
  if (out == nullptr || (flags & CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (parts->exports.IsOwn(*token)) return CUDA_ERROR_INVALID_CONTEXT;
  InShim guard;
  if (const auto open = parts->imports.OpenAgain(*token)) {
    *out = *open;
    return CUDA_SUCCESS;
  }
  // Outside the gate: the exporter may be paused, and this process must be able to pause meanwhile.
  CUresult result = CUDA_SUCCESS;
  auto import = parts->imports.Ask(*token, &result);
  if (import == nullptr) return result;
  const GatePass pass;
  if (!pass) return kNoPass;
  return parts->imports.Map(std::move(import), out);
}

CUresult OnIpcCloseMemHandle(Call<decltype(cuIpcCloseMemHandle)> call, CUdeviceptr ptr) {
  const GatePass pass;
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr) return call.real(ptr);
  InShim guard;
  if (const auto closed = parts->imports.Close(ptr)) return *closed;
  return call.real(ptr);
}

CUresult OnMemGetHandleForAddressRange(Call<decltype(cuMemGetHandleForAddressRange)> call,
                                       void* handle, CUdeviceptr ptr, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags) {
  const GatePass pass;
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr) return call.real(handle, ptr, bytes, type, flags);
  const Place place = PlaceOf(*parts, ptr);
  // The driver sees no end of an allocation within its range.
  const bool inside =
      place.kind == Place::Kind::kOther ||
      (place.kind == Place::Kind::kOurs && bytes <= EndOfPages(place.allocation) - ptr);
  if (!inside) {
    auto ask = [&] { return call.real(handle, kNowhere, bytes, type, flags); };
    if (auto refusal = RefusalOfThread(*parts, ask)) return *refusal;
    if (!AreSound(handle, ptr, bytes, type, flags)) return ask();
    *static_cast<int*>(handle) = -1;
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult r = call.real(handle, ptr, bytes, type, flags);
  if (r == CUDA_SUCCESS) {
    InShim guard;
    KeepInPlace(*parts, ptr, bytes);
  }
  return r;
}

}  // namespace parkade::shim
