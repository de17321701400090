// cuEvent*, cuStreamWaitEvent and the context-wide cuCtxRecordEvent.
#include "tests/sim/event.h"

#include "tests/sim/driver.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

CUresult Record(Context& context, CUevent handle, CUstream stream_handle) {
  const auto event = Sim().events.Find(handle);
  std::shared_ptr<Stream> stream;
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (auto r = FindStream(context, stream_handle, &stream); r != CUDA_SUCCESS) return r;
  Event::Recording recording;
  if (auto r = Sim().captures.Mark(stream, &recording.captured); r != CUDA_SUCCESS) return r;
  if (recording.captured.capture == nullptr) {
    bool captured = false;
    if (stream->kind == StreamKind::kLegacy) {
      auto nothing = [] { return CUDA_SUCCESS; };
      if (auto r = Sim().captures.Record(stream, CU_GRAPH_NODE_TYPE_EMPTY, nothing, &captured);
          r != CUDA_SUCCESS)
        return r;
    }
    auto time = std::make_shared<std::atomic<uint64_t>>(0);
    recording.time_ns = time;
    recording.point = stream->context.Submit(*stream, [time] {
      *time = MonotonicNs();
      return CUDA_SUCCESS;
    });
  }
  event->Record(std::move(recording));
  return CUDA_SUCCESS;
}

// The place a query or a wait of the host is about. CAPTURED_EVENT for events inside a capture.
CUresult HostPoint(CUevent handle, Point* point, std::shared_ptr<Event>* event) {
  *event = Sim().events.Find(handle);
  if (*event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto last = (*event)->Last();
  if (auto r = Sim().captures.RefuseQuery(last.captured); r != CUDA_SUCCESS) return r;
  if (auto r = Sim().captures.RefuseUnsafe(); r != CUDA_SUCCESS) return r;
  *point = last.point;
  return CUDA_SUCCESS;
}

CUresult Elapsed(float* ms, CUevent start, CUevent end) {
  const auto first = Sim().events.Find(start);
  const auto second = Sim().events.Find(end);
  if (ms == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (first == nullptr || second == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (((first->flags | second->flags) & CU_EVENT_DISABLE_TIMING) != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  const auto a = first->Last();
  const auto b = second->Last();
  if (a.time_ns == nullptr || b.time_ns == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!a.point.Reached() || !b.point.Reached()) return CUDA_ERROR_NOT_READY;
  *ms = float(double(int64_t(*b.time_ns - *a.time_ns)) / 1e6);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuEventCreate(CUevent* out, unsigned flags) {
  return CallIn<"cuEventCreate">([&](Context& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = Sim().events.Add(std::make_shared<Event>(context, flags));
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy_v2(CUevent event) {
  return Call<"cuEventDestroy_v2">([&] {
    return Sim().events.Remove(event) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return CallIn<"cuEventRecord">([&](Context& context) { return Record(context, event, stream); });
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) {
  return CallIn<"cuEventRecordWithFlags">(
      [&](Context& context) { return Record(context, event, stream); });
}

CUresult cuEventQuery(CUevent handle) {
  return Call<"cuEventQuery">([&] {
    Point point;
    std::shared_ptr<Event> event;
    if (auto r = HostPoint(handle, &point, &event); r != CUDA_SUCCESS) return r;
    return point.Reached() ? CUresult(event->context.sticky) : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return Call<"cuEventSynchronize">([&] {
    Point point;
    std::shared_ptr<Event> event;
    if (auto r = HostPoint(handle, &point, &event); r != CUDA_SUCCESS) return r;
    point.Wait();
    return CUresult(event->context.sticky);
  });
}

CUresult cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  return Call<"cuEventElapsedTime">([&] { return Elapsed(ms, start, end); });
}

CUresult cuEventElapsedTime_v2(float* ms, CUevent start, CUevent end) {
  return Call<"cuEventElapsedTime_v2">([&] { return Elapsed(ms, start, end); });
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned) {
  return CallIn<"cuStreamWaitEvent">([&](Context& context) {
    const auto event = Sim().events.Find(handle);
    std::shared_ptr<Stream> stream;
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (auto r = FindStream(context, stream_handle, &stream); r != CUDA_SUCCESS) return r;
    const auto last = event->Last();
    bool captured = false;
    if (auto r = Sim().captures.Join(stream, last.captured, &captured); r != CUDA_SUCCESS) return r;
    if (!captured) stream->context.Submit(*stream, [] { return CUDA_SUCCESS; }, {last.point});
    return CUDA_SUCCESS;
  });
}

// Like cuCtxSynchronize it ends every capture in the context.
CUresult cuCtxRecordEvent(CUcontext context_handle, CUevent handle) {
  return Call<"cuCtxRecordEvent">([&] {
    const auto context = Sim().contexts.Find(context_handle);
    const auto event = Sim().events.Find(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (auto r = Sim().captures.RefuseIn(*context); r != CUDA_SUCCESS) return r;
    Event::Recording recording;
    auto time = std::make_shared<std::atomic<uint64_t>>(0);
    recording.time_ns = time;
    std::vector<Point> tails;
    for (const auto& stream : context->Streams()) tails.push_back(stream->Tail());
    // A stream of its own: an event in an existing one would hold up what comes behind it.
    const auto marker =
        std::make_shared<Stream>(*context, StreamKind::kNonBlocking, CU_STREAM_NON_BLOCKING, 0);
    recording.point = context->Submit(
        *marker,
        [time] {
          *time = MonotonicNs();
          return CUDA_SUCCESS;
        },
        std::move(tails));
    marker->End();
    event->Record(std::move(recording));
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxWaitEvent(CUcontext context_handle, CUevent handle) {
  return Call<"cuCtxWaitEvent">([&] {
    const auto context = Sim().contexts.Find(context_handle);
    const auto event = Sim().events.Find(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (auto r = Sim().captures.RefuseIn(*context); r != CUDA_SUCCESS) return r;
    for (const auto& stream : context->Streams())
      context->Submit(*stream, [] { return CUDA_SUCCESS; }, {event->Last().point});
    return CUDA_SUCCESS;
  });
}
