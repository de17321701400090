// Stream capture: cuStreamBeginCapture to cuStreamEndCapture, and what can be asked in between.
#include "tests/sim/driver.h"
#include "tests/sim/graph.h"

using namespace parkade::sim;

namespace {

CUresult Begin(Context& context, CUstream handle, CUstreamCaptureMode mode) {
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  if (auto r = FindStream(context, handle, &stream); r != CUDA_SUCCESS) return r;
  return Sim().captures.Begin(stream, mode);
}

CUresult Info(Context& context, CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
              CUgraph* graph) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  if (auto r = FindStream(context, handle, &stream); r != CUDA_SUCCESS) return r;
  Captures::Status seen;
  if (auto r = Sim().captures.Look(*stream, &seen); r != CUDA_SUCCESS) return r;
  *status = seen.status;
  if (seen.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  if (id != nullptr) *id = seen.id;
  if (graph != nullptr) *graph = AllGraphs().HandleOf(seen.graph.get());
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuStreamBeginCapture(CUstream stream) {
  return CallIn<"cuStreamBeginCapture">(
      [&](Context& context) { return Begin(context, stream, CU_STREAM_CAPTURE_MODE_GLOBAL); });
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return CallIn<"cuStreamBeginCapture_v2">(
      [&](Context& context) { return Begin(context, stream, mode); });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return Call<"cuThreadExchangeStreamCaptureMode">([&] { return Captures::ExchangeMode(mode); });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* out) {
  return CallIn<"cuStreamEndCapture">([&](Context& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Stream> stream;
    if (auto r = FindStream(context, handle, &stream); r != CUDA_SUCCESS) return r;
    std::shared_ptr<Graph> graph;
    const CUresult result = Sim().captures.End(*stream, &graph);
    *out = graph == nullptr ? nullptr : AllGraphs().Add(std::move(graph));
    return result;
  });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return CallIn<"cuStreamIsCapturing">(
      [&](Context& context) { return Info(context, stream, status, nullptr, nullptr); });
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return CallIn<"cuStreamGetCaptureInfo">(
      [&](Context& context) { return Info(context, stream, status, id, nullptr); });
}

// The nodes that the next one would come after are not told: nothing here edits a captured graph.
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  return CallIn<"cuStreamGetCaptureInfo_v2">([&](Context& context) {
    if (nodes != nullptr) *nodes = nullptr;
    if (count != nullptr) *count = 0;
    return Info(context, stream, status, id, graph);
  });
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes,
                                   const CUgraphEdgeData** edges, size_t* count) {
  return CallIn<"cuStreamGetCaptureInfo_v3">([&](Context& context) {
    if (nodes != nullptr) *nodes = nullptr;
    if (edges != nullptr) *edges = nullptr;
    if (count != nullptr) *count = 0;
    return Info(context, stream, status, id, graph);
  });
}
