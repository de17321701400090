// Captures: streams whose work is recorded into a graph, and the calls that end such a recording.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "tests/sim/stream.h"

namespace parkade::sim {

struct GraphNode {
  CUgraphNodeType type;
  Task task;
  std::vector<size_t> after;  // indices of nodes before this one
};

struct Graph {
  std::deque<GraphNode> nodes;  // in an order that respects `after`
};

// One recording, from cuStreamBeginCapture to cuStreamEndCapture. Under the lock of Captures.
struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id owner;
  std::shared_ptr<Stream> origin;
  std::shared_ptr<Graph> graph;
  bool invalidated = false;
  // For every stream that takes part, the nodes its next node comes after.
  std::map<std::shared_ptr<Stream>, std::vector<size_t>> frontier;
};

// Where in a capture an event was recorded.
struct CapturedPoint {
  std::shared_ptr<Capture> capture;
  std::vector<size_t> after;
};

// All captures of the process. Follows what the driver was seen to do (README.md): some
// calls invalidate captures of other threads, some only from threads that are not in relaxed mode.
// Any thread.
class Captures {
 public:
  CUresult Begin(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode);
  // The graph, or nullptr with the error that ended the capture.
  CUresult End(Stream& stream, std::shared_ptr<Graph>* graph);

  struct Status {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    uint64_t id = 0;
    std::shared_ptr<Graph> graph;
  };
  CUresult Look(Stream& stream, Status* status);

  // Puts the work into the capture of `stream`, or leaves *captured false when there is none.
  CUresult Record(const std::shared_ptr<Stream>& stream, CUgraphNodeType type, const Task& task,
                  bool* captured);
  // An event recorded on `stream`: its place in the capture, none when the stream is not capturing.
  CUresult Mark(const std::shared_ptr<Stream>& stream, CapturedPoint* point);
  // A wait of `stream` for an event. *captured: the wait is part of a capture and nothing else is
  // to be done.
  CUresult Join(const std::shared_ptr<Stream>& stream, const CapturedPoint& event, bool* captured);

  // Calls that may not happen during a capture unless the thread is in relaxed mode:
  // STREAM_CAPTURE_ UNSUPPORTED, and the captures in the way are invalidated.
  CUresult RefuseUnsafe();
  // A wait for, or a query of, `stream` itself, or what else no capture can hold.
  CUresult RefuseOn(const Stream& stream);
  // A wait for, or a query of, an event.
  CUresult RefuseQuery(const CapturedPoint& event);
  // Calls on a whole context, from any thread in any mode.
  CUresult RefuseIn(const Context& context);

  // Swaps the calling thread's mode.
  static CUresult ExchangeMode(CUstreamCaptureMode* mode);

 private:
  // Any use of the legacy stream while a blocking stream captures.
  CUresult RefuseLegacy(const Stream& legacy) REQUIRES(mu_);
  static bool InContext(const Capture& capture, const Context& context);
  static bool RecordsBlockingStream(const Capture& capture, const Context& context);

  Mutex mu_;
  std::vector<std::shared_ptr<Capture>> active_ GUARDED_BY(mu_);
  uint64_t next_id_ GUARDED_BY(mu_) = 1;
};

}  // namespace parkade::sim
