// Handlers of peer access between devices: virtual memory has access lists of its own.
#include "shim/cuda/scoped_context.h"
#include "shim/hooks/gate_pass.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/hooked.h"

namespace parkade::shim {
namespace {

// After the driver has allowed or forbidden the current context to use memory of `peer`'s device.
CUresult Follow(const void* caller, CUcontext peer, bool allowed) {
  Parts* parts = PartsFor(caller);
  if (parts == nullptr) return CUDA_SUCCESS;
  InShim guard;
  CUdevice user = 0, owner = 0;
  if (parts->driver.ctx_get_device(&user) != CUDA_SUCCESS) return CUDA_SUCCESS;
  {
    ScopedContext current(parts->driver, peer);
    if (current.status() != CUDA_SUCCESS) return CUDA_SUCCESS;
    if (parts->driver.ctx_get_device(&owner) != CUDA_SUCCESS) return CUDA_SUCCESS;
  }
  const CUresult r = parts->heap.SetPeer(owner, user, DeviceMemory::Peer::kEnabled, allowed);
  // What stays open for copies stays so for them too.
  if (r != CUDA_SUCCESS || parts->heap.memory().MayUse(owner, user) != allowed) return r;
  return parts->imports.SetPeer(owner, user, allowed);
}

}  // namespace

CUresult OnEnablePeerAccess(Call<decltype(cuCtxEnablePeerAccess)> call, CUcontext peer,
                            unsigned flags) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(peer, flags);
  if (r != CUDA_SUCCESS) return r;
  const CUresult followed = Follow(call.caller, peer, true);
  if (followed == CUDA_SUCCESS) return r;
  // All or nothing, so that the application can try again.
  (void)Follow(call.caller, peer, false);
  auto* disable = reinterpret_cast<decltype(&cuCtxDisablePeerAccess)>(
      RealLibrary::Known(Entry::cuCtxDisablePeerAccess));
  if (disable != nullptr) disable(peer);
  return followed;
}

CUresult OnDisablePeerAccess(Call<decltype(cuCtxDisablePeerAccess)> call, CUcontext peer) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(peer);
  // What stays mapped for the peer does no harm.
  if (r == CUDA_SUCCESS) (void)Follow(call.caller, peer, false);
  return r;
}

}  // namespace parkade::shim
