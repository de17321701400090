// The thread behind each stream.
#include "tests/sim/stream.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "tests/sim/context.h"
#include "tests/sim/driver.h"

namespace parkade::sim {
namespace {
std::atomic<uint64_t> next_stream_id{1};
}

Stream::Stream(Context& stream_context, StreamKind stream_kind, unsigned stream_flags,
               int stream_priority)
    : context(stream_context),
      kind(stream_kind),
      flags(stream_flags),
      priority(stream_priority),
      id(next_stream_id++) {}

void Stream::End() {
  MutexLock lock(mu_);
  ending_ = true;
  changed_.NotifyAll();
}

Point Stream::Push(std::vector<Point> after, Task task) {
  MutexLock lock(mu_);
  if (!started_) {
    // The application's signals are for its own threads.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    // The thread owns its stream, which may be destroyed before its work is done.
    auto* self = new std::shared_ptr<Stream>(shared_from_this());
    pthread_t thread;
    started_ = pthread_create(&thread, nullptr, ThreadMain, self) == 0;
    if (started_) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }
  queue_.push_back({std::move(after), std::move(task)});
  changed_.NotifyAll();
  return {timeline_, ++submitted_};
}

Point Stream::Tail() {
  MutexLock lock(mu_);
  return {timeline_, submitted_};
}

void* Stream::ThreadMain(void* stream) {
  pthread_setname_np(pthread_self(), "sim-stream");
  const std::unique_ptr<std::shared_ptr<Stream>> self(
      static_cast<std::shared_ptr<Stream>*>(stream));
  (*self)->Run();
  return nullptr;
}

void Stream::Run() {
  for (;;) {
    Work work;
    {
      MutexLock lock(mu_);
      while (queue_.empty()) {
        if (ending_) return;
        changed_.WaitUntil(mu_, Deadline::Never());
      }
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    for (const Point& point : work.after) point.Wait();
    if (context.sticky == CUDA_SUCCESS) {
      const CUresult result = work.task();
      CUresult none = CUDA_SUCCESS;
      if (result != CUDA_SUCCESS && context.sticky.compare_exchange_strong(none, result))
        Sim().lost = result;
    }
    work = {};  // what the task owns goes before anybody is told
    timeline_->Advance();
  }
}

}  // namespace parkade::sim
