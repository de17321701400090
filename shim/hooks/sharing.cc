// Handlers of calls that hand memory of the heap to somebody else: said in the ledger, since a
// pause changes the physical memory behind the address.
#include "shim/hooks/gate_pass.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/hooked.h"

namespace parkade::shim {
namespace {

void WarnIfOurs(const void* caller, CUdeviceptr ptr, const char* text) {
  Parts* parts = PartsFor(caller);
  if (parts != nullptr && parts->heap.Find(ptr)) parts->ledger.AddWarning(text);
}

}  // namespace

CUresult OnIpcGetMemHandle(Call<decltype(cuIpcGetMemHandle)> call, CUipcMemHandle* handle,
                           CUdeviceptr ptr) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(handle, ptr);
  if (r != CUDA_SUCCESS) {
    WarnIfOurs(call.caller, ptr,
               "the driver refused CUDA IPC (cuIpcGetMemHandle) for pausable memory");
  }
  return r;
}

CUresult OnMemGetHandleForAddressRange(Call<decltype(cuMemGetHandleForAddressRange)> call,
                                       void* handle, CUdeviceptr ptr, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(handle, ptr, bytes, type, flags);
  if (r == CUDA_SUCCESS) {
    WarnIfOurs(call.caller, ptr,
               "pausable memory was exported as a dma-buf: after a pause its importers see old "
               "bytes");
  }
  return r;
}

}  // namespace parkade::shim
