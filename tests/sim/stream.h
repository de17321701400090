// Stream: a queue of work and the thread that does it.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/mutex.h"
#include "tests/sim/cuda_api.h"
#include "tests/sim/timeline.h"

namespace parkade::sim {

struct Context;
struct Capture;

enum class StreamKind { kLegacy, kBlocking, kNonBlocking };

// One thing for a stream to do. An error other than SUCCESS is the context's end.
using Task = std::function<CUresult()>;

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Context& stream_context, StreamKind stream_kind, unsigned stream_flags,
         int stream_priority);
  // The thread finishes what is submitted and ends. Without waiting for it; nothing may be pushed
  // any more.
  void End();

  // Appends `task`, to run once `after` is reached. Only with the context's submission lock held,
  // so that a point which others wait for always lies before what waits.
  Point Push(std::vector<Point> after, Task task);
  // All that has been submitted until now.
  Point Tail();

  Context& context;
  const StreamKind kind;
  const unsigned flags;
  const int priority;
  const uint64_t id;
  std::shared_ptr<Capture> capture;  // under the lock of Captures

 private:
  struct Work {
    std::vector<Point> after;
    Task task;
  };
  static void* ThreadMain(void* stream);
  void Run();

  const std::shared_ptr<Timeline> timeline_ = std::make_shared<Timeline>();
  Mutex mu_;
  CondVar changed_;
  std::deque<Work> queue_ GUARDED_BY(mu_);
  uint64_t submitted_ GUARDED_BY(mu_) = 0;
  bool ending_ GUARDED_BY(mu_) = false;
  bool started_ GUARDED_BY(mu_) = false;
};

}  // namespace parkade::sim
