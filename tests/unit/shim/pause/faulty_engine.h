// FaultyEngine: a real engine whose nth completion is turned into an error, or never comes.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/io/io_engine.h"
#include "common/io/page_cache.h"
#include "common/io/pool_engine.h"
#include "tests/unit/common/io/pthread_starter.h"

namespace parkade::shim {

// For all engines that FaultyEngine::Make makes from now on.
struct IoFaults {
  std::atomic<int> completions = 0;                 // counted so far
  std::atomic<int> fail_at = 0;                     // 0: none fails
  bool (*fail_also)(const void* memory) = nullptr;  // and those of requests with such memory
  std::optional<Error> error;
  std::atomic<int> stall_at =
      0;  // from this one on the engine that has it gives none any more; 0: none
  std::atomic<uint32_t> deepest = 0;  // most requests in flight at once, roughly
  // Waits for the disk with less in flight than the engine takes: others could have been under way.
  std::atomic<int> shallow_waits = 0;
  std::atomic<int> registered = 0;  // requests that named registered memory
  bool caches = false;              // the files' file system takes O_DIRECT and caches all the same
  std::atomic<Bytes> most_cached = 0;  // of the first file then, whenever a request has ended

  void Reset() {
    completions = 0;
    fail_at = 0;
    fail_also = nullptr;
    stall_at = 0;
    deepest = 0;
    shallow_waits = 0;
    registered = 0;
    caches = false;
    most_cached = 0;
  }
};

class FaultyEngine final : public IoEngine {
 public:
  static inline IoFaults plan;

  static IoEngineChoice Make(uint32_t depth) {
    IoEngineChoice choice;
#if defined(__SANITIZE_THREAD__)
    // liburing maps its rings by bare system calls, so the sanitizer takes a new ring at an old
    // address, made on another thread, for a race.
    choice.engine = std::make_unique<PoolEngine>(depth, std::make_unique<PthreadStarter>());
#else
    choice = MakeIoEngine(depth, std::make_unique<PthreadStarter>());
#endif
    choice.engine = std::make_unique<FaultyEngine>(std::move(choice.engine));
    return choice;
  }

  explicit FaultyEngine(std::unique_ptr<IoEngine> real) : real_(std::move(real)) {}
  void UseFiles(std::span<const int> files) override {
    real_->UseFiles(files);
    if (!plan.caches) return;
    for (const int file : files) fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_DIRECT);
    cached_file_ = files[0];
  }
  bool UseMemory(std::span<const std::span<char>> blocks) override {
    return real_->UseMemory(blocks);
  }
  Result<void> Submit(const IoRequest& request) override {
    memory_[request.tag] = request.memory;
    if (request.registered >= 0) ++plan.registered;
    auto r = real_->Submit(request);
    if (real_->in_flight() > plan.deepest) plan.deepest = real_->in_flight();
    return r;
  }
  Result<IoCompletion> WaitAny(Deadline by) override {
    // As after a minute, without the minute.
    const auto stalled = MakeError(Code::kDeadlineExceeded, "TIMED_OUT", "the disk hangs");
    if (stalled_) return stalled;
    if (!by.Passed() && in_flight() < depth()) ++plan.shallow_waits;
    auto completion = real_->WaitAny(by);
    if (!completion.ok()) return completion;
    const int number = ++plan.completions;
    if (plan.caches) {
      const Bytes cached = CachedBytes(cached_file_, 0, 1_GiB).value_or(0);
      if (cached > plan.most_cached) plan.most_cached = cached;
    }
    stalled_ = number == plan.stall_at;
    if (stalled_) {
      ++lost_;
      return stalled;
    }
    const bool also = plan.fail_also != nullptr && plan.fail_also(memory_[completion->tag]);
    if (also || number == plan.fail_at) completion->result = *plan.error;
    return completion;
  }
  void Abandon() override {
    real_->Abandon();
    abandoned.push_back(this);  // which nobody destroys
  }
  uint32_t in_flight() const override { return real_->in_flight() + lost_; }
  uint32_t depth() const override { return real_->depth(); }

  // Never destroyed, as they are not: the leak checker looks after the last destructor.
  static inline auto& abandoned = *new std::vector<FaultyEngine*>;

 private:
  std::unique_ptr<IoEngine> real_;
  std::map<uint64_t, const void*> memory_;  // of requests, by tag
  int cached_file_ = -1;
  bool stalled_ = false;
  uint32_t lost_ = 0;  // completions that were swallowed
};

}  // namespace parkade::shim
