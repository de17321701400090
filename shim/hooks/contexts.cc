// Handlers of the calls that make and end contexts.
#include "common/mutex.h"
#include "shim/hooks/counts.h"
#include "shim/hooks/escapes.h"
#include "shim/hooks/gate_pass.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/hooked.h"

// glibc since 2.3: what pthread_atfork calls, which older glibc keeps in libpthread.
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* dso);
extern "C" void* __dso_handle;

namespace parkade::shim {
namespace {

// By device: its primary context, once it has been retained.
constexpr int kDevices = 64;
constinit std::atomic<CUcontext> primary_contexts[kDevices] = {};

CUcontext PrimaryContext(CUdevice device) {
  return device >= 0 && device < kDevices ? primary_contexts[device].load() : nullptr;
}

// One for each device's primary context, and one for contexts of the program's own: a context ends
// together with what is known of it, so that none that is made meanwhile, which may get its handle,
// is taken for it. Held across the driver's call, inside the gate; nothing else is done under it.
Mutex locks[kDevices + 1];

void ResetLocksAfterFork() {
  for (Mutex& lock : locks) lock.ResetAfterFork();
}

Mutex& LockOf(int slot) {
  static constinit std::atomic<bool> registered{false};
  if (!registered.exchange(true)) {
    __register_atfork(nullptr, nullptr, ResetLocksAfterFork, &__dso_handle);
  }
  return locks[slot];
}
Mutex& LockOfPrimary(CUdevice device) {
  return LockOf(device >= 0 && device < kDevices ? device : kDevices);
}
Mutex& LockOfOwn() { return LockOf(kDevices); }

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

// A call that makes a context of the program's own.
template <typename Real>
CUresult Making(const void* caller, CUcontext* out, Real real) {
  CUresult r;
  {
    MutexLock lock(LockOfOwn());
    r = real();
  }
  if (r == CUDA_SUCCESS && FromOutside(caller)) NoteContext(*out);
  return r;
}

// A call that may end a device's primary context, and what the driver has for the device with it.
// `ended`: whether it has, where it succeeded.
template <typename F, typename Ended>
CUresult EndingPrimary(Call<F> call, CUdevice device, Ended ended) {
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  MutexLock lock(LockOfPrimary(device));
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr) return call.real(device);
  const CUcontext context = PrimaryContext(device);
  parts->foreign.DeviceMayEnd(device);
  const CUresult r = call.real(device);
  if (r != CUDA_SUCCESS || !ended()) {
    parts->foreign.DeviceStays(device);
    return r;
  }
  InShim guard;
  parts->foreign.DeviceEnded(device);
  if (context != nullptr) ContextGoes(context);
  return r;
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
  return Making(call.caller, out, [&] { return call.real(out, flags, device); });
}

CUresult OnCtxCreateV3(Call<decltype(cuCtxCreate_v3)> call, CUcontext* out,
                       CUexecAffinityParam* affinity, int affinity_count, unsigned flags,
                       CUdevice device) {
  const GatePass pass;
  if (!pass) return kNoPass;
  return Making(call.caller, out,
                [&] { return call.real(out, affinity, affinity_count, flags, device); });
}

CUresult OnCtxCreateV4(Call<decltype(cuCtxCreate_v4)> call, CUcontext* out,
                       CUctxCreateParams* params, unsigned flags, CUdevice device) {
  const GatePass pass;
  if (!pass) return kNoPass;
  return Making(call.caller, out, [&] { return call.real(out, params, flags, device); });
}

CUresult OnCtxFromGreenCtx(Call<decltype(cuCtxFromGreenCtx)> call, CUcontext* out,
                           CUgreenCtx green) {
  const GatePass pass;
  if (!pass) return kNoPass;
  return Making(call.caller, out, [&] { return call.real(out, green); });
}

CUresult OnPrimaryCtxRetain(Call<decltype(cuDevicePrimaryCtxRetain)> call, CUcontext* out,
                            CUdevice device) {
  const GatePass pass;
  if (!pass) return kNoPass;
  CUresult r;
  {
    MutexLock lock(LockOfPrimary(device));
    r = call.real(out, device);
    if (r != CUDA_SUCCESS || !FromOutside(call.caller)) return r;
    if (device >= 0 && device < kDevices) primary_contexts[device].store(*out);
  }
  NoteContext(*out);
  return r;
}

// After the driver, not before: it may refuse, and it has waited for the context's work.
CUresult OnCtxDestroy(Call<decltype(cuCtxDestroy)> call, CUcontext context) {
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  if (parts != nullptr && parts->contexts.NumberOf(context) != 0) {
    // The driver waits for this too, but under the lock: what the work waits for, by a function of
    // the host's, may be a context that another thread is about to make.
    InShim guard;
    (void)parts->heap.implicit_wait().Run(context);
  }
  MutexLock lock(LockOfOwn());
  const CUresult r = call.real(context);
  if (r == CUDA_SUCCESS && parts != nullptr) {
    InShim guard;
    ContextGoes(context);
  }
  return r;
}

CUresult OnPrimaryCtxRelease(Call<decltype(cuDevicePrimaryCtxRelease)> call, CUdevice device) {
  // The libraries of a process share it; only the last release ends it.
  return EndingPrimary(call, device, [device] { return PrimaryIsGone(device); });
}

CUresult OnPrimaryCtxReset(Call<decltype(cuDevicePrimaryCtxReset)> call, CUdevice device) {
  return EndingPrimary(call, device, [] { return true; });
}

}  // namespace parkade::shim
