// Handlers of the calls that make and end streams: the list of them is for messages alone.
#include "shim/hooks/captures.h"
#include "shim/hooks/gate_pass.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/hooked.h"

namespace parkade::shim {
namespace {

template <typename F, typename... Args>
CUresult Create(Call<F> call, CUstream* out, Args... args) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, args...);
  Parts* parts = PartsFor(call.caller);
  CUcontext context = nullptr;
  if (r == CUDA_SUCCESS && parts != nullptr &&
      parts->driver.ctx_get_current(&context) == CUDA_SUCCESS) {
    parts->streams.Add(*out, context);
  }
  return r;
}

}  // namespace

CUresult OnStreamCreate(Call<decltype(cuStreamCreate)> call, CUstream* out, unsigned flags) {
  return Create(call, out, flags);
}

CUresult OnStreamCreateWithPriority(Call<decltype(cuStreamCreateWithPriority)> call, CUstream* out,
                                    unsigned flags, int priority) {
  return Create(call, out, flags, priority);
}

// Off the list before its handle can mean another stream; back on it when the driver refuses.
CUresult OnStreamDestroy(Call<decltype(cuStreamDestroy)> call, CUstream stream) {
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  const std::optional<CUcontext> context =
      parts == nullptr ? std::nullopt : parts->streams.Remove(stream);
  const CUresult r = call.real(stream);
  if (parts == nullptr) return r;
  if (r == CUDA_SUCCESS) {
    Gate::CaptureEnded(CaptureKey(stream));
  } else if (context) {
    parts->streams.Add(stream, *context);
  }
  return r;
}

}  // namespace parkade::shim
