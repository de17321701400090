// The rules of stream capture.
#include "tests/sim/capture.h"

#include <algorithm>
#include <set>

#include "tests/sim/context.h"

namespace parkade::sim {
namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void Merge(std::vector<size_t>& into, const std::vector<size_t>& from) {
  std::set<size_t> all(into.begin(), into.end());
  all.insert(from.begin(), from.end());
  into.assign(all.begin(), all.end());
}

// Whether every stream's last nodes come before the end of the origin stream.
bool Joined(const Capture& capture) {
  std::set<size_t> before;
  std::vector<size_t> open = capture.frontier.at(capture.origin);
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    if (!before.insert(node).second) continue;
    const auto& after = capture.graph->nodes[node].after;
    open.insert(open.end(), after.begin(), after.end());
  }
  for (const auto& [stream, last] : capture.frontier)
    if (!std::all_of(last.begin(), last.end(), [&](size_t n) { return before.count(n) != 0; }))
      return false;
  return true;
}

}  // namespace

CUresult Captures::Begin(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode) {
  MutexLock lock(mu_);
  if (stream->kind == StreamKind::kLegacy) {
    const CUresult result = RefuseLegacy(*stream);
    return result == CUDA_SUCCESS ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : result;
  }
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = next_id_++;
  capture->mode = mode;
  capture->owner = std::this_thread::get_id();
  capture->origin = stream;
  capture->graph = std::make_shared<Graph>();
  capture->frontier[stream];
  stream->capture = capture;
  active_.push_back(capture);
  return CUDA_SUCCESS;
}

CUresult Captures::End(Stream& stream, std::shared_ptr<Graph>* graph) {
  MutexLock lock(mu_);
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin.get() != &stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  const bool wrong_thread = capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
                            capture->owner != std::this_thread::get_id();
  const bool joined = Joined(*capture);
  for (const auto& [member, last] : capture->frontier) member->capture = nullptr;
  capture->frontier.clear();
  std::erase(active_, capture);
  const bool invalidated = capture->invalidated;
  capture->invalidated = true;  // for events that were recorded in it
  if (wrong_thread) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  if (invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = capture->graph;
  return CUDA_SUCCESS;
}

CUresult Captures::Look(Stream& stream, Status* status) {
  MutexLock lock(mu_);
  if (stream.kind == StreamKind::kLegacy) {
    for (const auto& capture : active_)
      if (RecordsBlockingStream(*capture, stream.context))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (stream.capture == nullptr) return CUDA_SUCCESS;
  status->status = stream.capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                               : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  status->id = stream.capture->id;
  status->graph = stream.capture->graph;
  return CUDA_SUCCESS;
}

CUresult Captures::Record(const std::shared_ptr<Stream>& stream, CUgraphNodeType type,
                          const Task& task, bool* captured) {
  MutexLock lock(mu_);
  *captured = false;
  if (stream->kind == StreamKind::kLegacy) return RefuseLegacy(*stream);
  Capture* capture = stream->capture.get();
  if (capture == nullptr) return CUDA_SUCCESS;
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto& last = capture->frontier[stream];
  capture->graph->nodes.push_back({type, task, last});
  last = {capture->graph->nodes.size() - 1};
  *captured = true;
  return CUDA_SUCCESS;
}

CUresult Captures::Mark(const std::shared_ptr<Stream>& stream, CapturedPoint* point) {
  MutexLock lock(mu_);
  *point = {};
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  *point = {stream->capture, stream->capture->frontier[stream]};
  return CUDA_SUCCESS;
}

CUresult Captures::Join(const std::shared_ptr<Stream>& stream, const CapturedPoint& event,
                        bool* captured) {
  MutexLock lock(mu_);
  *captured = false;
  Capture* own = stream->capture.get();
  if (own != nullptr && own->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (event.capture == nullptr) {
    if (own == nullptr) return CUDA_SUCCESS;
    own->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (event.capture->invalidated) return CUDA_ERROR_CAPTURED_EVENT;
  if (stream->kind == StreamKind::kLegacy) {
    event.capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (own != nullptr && own != event.capture.get()) {
    own->invalidated = event.capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  stream->capture = event.capture;
  Merge(event.capture->frontier[stream], event.after);
  *captured = true;
  return CUDA_SUCCESS;
}

CUresult Captures::RefuseUnsafe() {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  MutexLock lock(mu_);
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : active_) {
    const bool own = capture->owner == std::this_thread::get_id();
    const bool in_the_way = own ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                                : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                      thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!in_the_way) continue;
    capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult Captures::RefuseLegacy(const Stream& legacy) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : active_) {
    if (!RecordsBlockingStream(*capture, legacy.context)) continue;
    capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

CUresult Captures::RefuseQuery(const CapturedPoint& event) {
  MutexLock lock(mu_);
  if (event.capture == nullptr) return CUDA_SUCCESS;
  event.capture->invalidated = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult Captures::RefuseOn(const Stream& stream) {
  MutexLock lock(mu_);
  if (stream.kind == StreamKind::kLegacy) return RefuseLegacy(stream);
  if (stream.capture == nullptr) return CUDA_SUCCESS;
  if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  stream.capture->invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult Captures::RefuseIn(const Context& context) {
  MutexLock lock(mu_);
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : active_) {
    if (!InContext(*capture, context)) continue;
    capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult Captures::ExchangeMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}

bool Captures::InContext(const Capture& capture, const Context& context) {
  return std::any_of(capture.frontier.begin(), capture.frontier.end(),
                     [&](const auto& member) { return &member.first->context == &context; });
}

bool Captures::RecordsBlockingStream(const Capture& capture, const Context& context) {
  return std::any_of(capture.frontier.begin(), capture.frontier.end(), [&](const auto& member) {
    return &member.first->context == &context && member.first->kind == StreamKind::kBlocking;
  });
}

}  // namespace parkade::sim
