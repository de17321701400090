// Handlers of stream captures: a pause waits until none is under way, for waiting for the GPU would
// kill them.
#include "shim/hooks/captures.h"

#include "shim/hooks/gate_pass.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/hooked.h"

namespace parkade::shim {

CUstream CaptureKey(CUstream stream) {
  static thread_local constinit char mark = 0;
  return stream == nullptr || stream == CU_STREAM_PER_THREAD ? reinterpret_cast<CUstream>(&mark)
                                                             : stream;
}

namespace {

// Whether the driver still counts `stream` as capturing. Asked on the thread that captures, and of
// the plain function: a null stream has then no capture to speak of.
bool StillCaptures(const Parts& parts, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return parts.driver.stream_is_capturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

template <typename F, typename... Args>
CUresult Begin(Call<F> call, CUstream stream, Args... args) {
  NoteCurrentContext();
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr) return call.real(stream, args...);
  Gate::CaptureBegins(CaptureKey(stream));
  const CUresult r = call.real(stream, args...);
  // A second begin on the same stream is refused, and the first capture goes on.
  if (r != CUDA_SUCCESS && !StillCaptures(*parts, stream)) Gate::CaptureEnded(CaptureKey(stream));
  return r;
}

}  // namespace

CUresult OnBeginCaptureV1(Call<decltype(cuStreamBeginCapture)> call, CUstream stream) {
  return Begin(call, stream);
}

CUresult OnBeginCapture(Call<decltype(cuStreamBeginCapture_v2)> call, CUstream stream,
                        CUstreamCaptureMode mode) {
  return Begin(call, stream, mode);
}

CUresult OnBeginCaptureToGraph(Call<decltype(cuStreamBeginCaptureToGraph)> call, CUstream stream,
                               CUgraph graph, const CUgraphNode* dependencies,
                               const CUgraphEdgeData* edges, size_t dependency_count,
                               CUstreamCaptureMode mode) {
  return Begin(call, stream, graph, dependencies, edges, dependency_count, mode);
}

CUresult OnEndCapture(Call<decltype(cuStreamEndCapture)> call, CUstream stream, CUgraph* graph) {
  const CUresult r = call.real(stream, graph);
  Parts* parts = PartsFor(call.caller);
  // Refused on a thread that did not begin it, the capture goes on; invalidated, it has ended.
  if (parts != nullptr && (r == CUDA_SUCCESS || !StillCaptures(*parts, stream))) {
    Gate::CaptureEnded(CaptureKey(stream));
  }
  return r;
}

}  // namespace parkade::shim
