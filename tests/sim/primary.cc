// Life of contexts: residue in the account, counted primary contexts, and what dies with them.
#include "tests/sim/primary.h"

#include <array>

#include "tests/sim/current.h"

using namespace parkade;
using namespace parkade::sim;

namespace parkade::sim {
namespace {

struct Primary {
  CUcontext context = nullptr;  // stays when the context goes
  int users = 0;
  unsigned flags = 0;
};
Mutex primary_mutex;
std::array<Primary, kMaxGpus> primaries GUARDED_BY(primary_mutex);

Registry<Context, Context*>& Graveyard() {
  static auto* const graveyard = new Registry<Context, Context*>;
  return *graveyard;
}

bool Known(CUdevice gpu) { return gpu >= 0 && gpu < Sim().settings.gpus; }

}  // namespace

CUresult OpenContext(int gpu, unsigned flags, CUcontext* handle) {
  Driver& sim = Sim();
  if (sim.lost != CUDA_SUCCESS) return sim.lost;
  if (!sim.account.Charge(gpu, sim.settings.context_bytes, sim.settings.gpu_bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  // Nothing is behind a handle but the registry.
  if (*handle == nullptr) *handle = reinterpret_cast<CUcontext>(new char);
  sim.contexts.AddAs(*handle, std::make_shared<Context>(gpu, flags, *handle));
  return CUDA_SUCCESS;
}

CUresult CloseContext(CUcontext handle) {
  Driver& sim = Sim();
  const auto context = sim.contexts.Remove(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  // Work of a stream that was destroyed early may outlive the handle: see Context.
  Graveyard().Add(context);
  context->Drain();
  for (const auto& stream : context->Streams()) {
    sim.streams.Remove(sim.streams.HandleOf(stream.get()));
    stream->End();
  }
  std::vector<std::pair<Address, RangeKind>> owned;
  sim.addresses.ForEach([&](const Range& range) {
    if (range.context == handle && range.pool == nullptr)
      owned.emplace_back(range.base, range.kind);
  });
  for (const auto& [base, kind] : owned) sim.addresses.Remove(base, kind);
  sim.account.Refund(context->gpu, sim.settings.context_bytes);
  return CUDA_SUCCESS;
}

std::optional<int> GpuOfDestroyed(CUcontext handle) {
  for (const auto& context : Graveyard().All())
    if (context->handle == handle) return context->gpu;
  return std::nullopt;
}

bool IsPrimary(CUcontext handle) {
  MutexLock lock(primary_mutex);
  for (const Primary& primary : primaries)
    if (handle != nullptr && primary.context == handle) return true;
  return false;
}

}  // namespace parkade::sim

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice gpu) {
  return Call<"cuDevicePrimaryCtxRetain">([&] {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    MutexLock lock(primary_mutex);
    Primary& primary = primaries[size_t(gpu)];
    if (Sim().lost != CUDA_SUCCESS) return CUresult(Sim().lost);
    if (primary.users == 0) {
      if (auto r = OpenContext(gpu, primary.flags, &primary.context); r != CUDA_SUCCESS) return r;
    }
    ++primary.users;
    *context = primary.context;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice gpu) {
  return Call<"cuDevicePrimaryCtxRelease_v2">([&] {
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    CUcontext last = nullptr;
    {
      MutexLock lock(primary_mutex);
      Primary& primary = primaries[size_t(gpu)];
      if (primary.users == 0) return CUDA_ERROR_INVALID_CONTEXT;
      if (--primary.users == 0) last = primary.context;
    }
    return last == nullptr ? CUDA_SUCCESS : CloseContext(last);
  });
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice gpu) {
  return Call<"cuDevicePrimaryCtxReset_v2">([&] {
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    CUcontext last = nullptr;
    {
      MutexLock lock(primary_mutex);
      Primary& primary = primaries[size_t(gpu)];
      if (primary.users != 0) last = primary.context;
      primary.users = 0;
    }
    return last == nullptr ? CUDA_SUCCESS : CloseContext(last);
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice gpu, unsigned* flags, int* active) {
  return Call<"cuDevicePrimaryCtxGetState">([&] {
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    MutexLock lock(primary_mutex);
    if (flags != nullptr) *flags = primaries[size_t(gpu)].flags;
    if (active != nullptr) *active = primaries[size_t(gpu)].users != 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice gpu, unsigned flags) {
  return Call<"cuDevicePrimaryCtxSetFlags_v2">([&] {
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    MutexLock lock(primary_mutex);
    primaries[size_t(gpu)].flags = flags;
    return CUDA_SUCCESS;
  });
}
