// Handlers of the calls that make and end contexts.
#include "shim/hooks/counts.h"
#include "shim/hooks/escapes.h"
#include "shim/hooks/gate_pass.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/hooked.h"

namespace parkade::shim {
namespace {

// By device: its primary context, once it has been retained.
constexpr int kDevices = 64;
constinit std::atomic<CUcontext> primary_contexts[kDevices] = {};

CUcontext PrimaryContext(CUdevice device) {
  return device >= 0 && device < kDevices ? primary_contexts[device].load() : nullptr;
}

bool FromOutside(const void* caller) { return !InShim::Active() && !RealLibrary::Contains(caller); }

// Whether the driver has let the device's primary context go.
bool PrimaryIsGone(CUdevice device) {
  auto* get_state = reinterpret_cast<decltype(&cuDevicePrimaryCtxGetState)>(
      RealLibrary::Known(Entry::cuDevicePrimaryCtxGetState));
  unsigned flags = 0;
  int active = 1;
  return get_state != nullptr && get_state(device, &flags, &active) == CUDA_SUCCESS && active == 0;
}

// Whether the current context works, or works again. Memory that no device has is asked for.
bool Works() {
  auto* alloc =
      reinterpret_cast<decltype(&cuMemAlloc_v2)>(RealLibrary::Known(Entry::cuMemAlloc_v2));
  CUdeviceptr none = 0;
  return alloc != nullptr && alloc(&none, SIZE_MAX) == CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

void NoteContext(CUcontext context) {
  if (context == nullptr || Inert()) return;
  InShim guard;
  ContextMade(RealByName, context);
  Parts* parts = LiveParts();
  if (parts == nullptr) return;
  parts->ledger.SetUnhookedNames(UnhookedNames());
  WarnOfNewEscapes(parts->ledger, CountLoads());
}

void NoteCurrentContext() {
  static thread_local constinit CUcontext last_noted = nullptr;
  auto* get_current =
      reinterpret_cast<decltype(&cuCtxGetCurrent)>(RealLibrary::Known(Entry::cuCtxGetCurrent));
  CUcontext current = nullptr;
  if (get_current == nullptr || get_current(&current) != CUDA_SUCCESS) return;
  // After fork the thread remembers a context of its parent, while there are no parts.
  Parts* parts = LiveParts();
  if (current == last_noted && parts != nullptr) return;
  // Destroyed, and still current here.
  if (parts != nullptr && parts->contexts.IsGone(current) && !Works()) return;
  NoteContext(current);
  last_noted = current;
}

CUresult OnCtxCreate(Call<decltype(cuCtxCreate)> call, CUcontext* out, unsigned flags,
                     CUdevice device) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, flags, device);
  if (r == CUDA_SUCCESS && FromOutside(call.caller)) NoteContext(*out);
  return r;
}

CUresult OnCtxCreateV3(Call<decltype(cuCtxCreate_v3)> call, CUcontext* out,
                       CUexecAffinityParam* affinity, int affinity_count, unsigned flags,
                       CUdevice device) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, affinity, affinity_count, flags, device);
  if (r == CUDA_SUCCESS && FromOutside(call.caller)) NoteContext(*out);
  return r;
}

CUresult OnCtxCreateV4(Call<decltype(cuCtxCreate_v4)> call, CUcontext* out,
                       CUctxCreateParams* params, unsigned flags, CUdevice device) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, params, flags, device);
  if (r == CUDA_SUCCESS && FromOutside(call.caller)) NoteContext(*out);
  return r;
}

CUresult OnCtxFromGreenCtx(Call<decltype(cuCtxFromGreenCtx)> call, CUcontext* out,
                           CUgreenCtx green) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, green);
  if (r == CUDA_SUCCESS && FromOutside(call.caller)) NoteContext(*out);
  return r;
}

CUresult OnPrimaryCtxRetain(Call<decltype(cuDevicePrimaryCtxRetain)> call, CUcontext* out,
                            CUdevice device) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, device);
  if (r != CUDA_SUCCESS || !FromOutside(call.caller)) return r;
  if (device >= 0 && device < kDevices) primary_contexts[device].store(*out);
  NoteContext(*out);
  return r;
}

// After the driver, not before: it may refuse, and it has waited for the context's work.
CUresult OnCtxDestroy(Call<decltype(cuCtxDestroy)> call, CUcontext context) {
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  const CUresult r = call.real(context);
  if (r == CUDA_SUCCESS && FromOutside(call.caller)) {
    InShim guard;
    ContextGoes(context);
  }
  return r;
}

CUresult OnPrimaryCtxRelease(Call<decltype(cuDevicePrimaryCtxRelease)> call, CUdevice device) {
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  const CUcontext context = PrimaryContext(device);
  const CUresult r = call.real(device);
  // The libraries of a process share it; only the last release ends it.
  if (r == CUDA_SUCCESS && context != nullptr && FromOutside(call.caller) &&
      PrimaryIsGone(device)) {
    InShim guard;
    ContextGoes(context);
  }
  return r;
}

CUresult OnPrimaryCtxReset(Call<decltype(cuDevicePrimaryCtxReset)> call, CUdevice device) {
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  const CUcontext context = PrimaryContext(device);
  const CUresult r = call.real(device);
  if (r == CUDA_SUCCESS && context != nullptr && FromOutside(call.caller)) {
    InShim guard;
    ContextGoes(context);
  }
  return r;
}

}  // namespace parkade::shim
