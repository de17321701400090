// Context: what the driver API's calls work in; its streams, and the error that ended it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "tests/sim/stream.h"

namespace parkade::sim {

// Never destroyed: work of a stream that was destroyed early may still run in it.
struct Context {
  // The contexts whose memory this one may touch.
  class Peers {
   public:
    bool Insert(CUcontext peer) {
      MutexLock lock(mu_);
      return peers_.insert(peer).second;
    }
    bool Erase(CUcontext peer) {
      MutexLock lock(mu_);
      return peers_.erase(peer) != 0;
    }
    bool Has(CUcontext peer) {
      MutexLock lock(mu_);
      return peers_.contains(peer);
    }

   private:
    Mutex mu_;
    std::set<CUcontext> peers_ GUARDED_BY(mu_);
  };

  Context(int context_gpu, unsigned context_flags, CUcontext context_handle);

  const int gpu;
  const uint64_t id;
  const CUcontext handle;
  std::atomic<unsigned> flags;
  // Not SUCCESS: an earlier kernel or copy failed, and every later call answers this.
  std::atomic<CUresult> sticky{CUDA_SUCCESS};
  Peers peers;

  // Submits `task` to `stream`: behind the legacy stream's work for a blocking stream, behind all
  // blocking streams' work for the legacy stream, and behind `after`.
  Point Submit(Stream& stream, Task task, std::vector<Point> after = {});
  // What the legacy stream counts as its work: its own and that of the blocking streams.
  std::vector<Point> LegacyTails();
  // Waits for all work submitted to any stream, and returns the sticky error.
  CUresult Drain();

  std::shared_ptr<Stream> Add(StreamKind kind, unsigned stream_flags, int priority);
  void Forget(const Stream* stream);
  std::shared_ptr<Stream> Legacy() { return legacy_; }
  // The calling thread's default stream.
  std::shared_ptr<Stream> PerThread();
  std::vector<std::shared_ptr<Stream>> Streams();

 private:
  Mutex mu_;  // orders submissions; the streams' own locks are taken inside
  std::vector<std::shared_ptr<Stream>> streams_ GUARDED_BY(mu_);
  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread_ GUARDED_BY(mu_);
  std::shared_ptr<Stream> legacy_;
};

}  // namespace parkade::sim
