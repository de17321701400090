// FaultyEngine: a real engine whose nth completion is turned into an error, or never comes.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/io/io_engine.h"
#include "common/io/pool_engine.h"
#include "tests/unit/common/io/pthread_starter.h"

namespace parkade::shim {

// For all engines that FaultyEngine::Make makes from now on.
struct IoFaults {
  std::atomic<int> completions = 0;                 // counted so far
  int fail_at = 0;                                  // 0: none fails
  bool (*fail_also)(const void* memory) = nullptr;  // and those of requests with such memory
  std::optional<Error> error;
  int stall_at = 0;  // from this one on the engine that has it gives none any more; 0: none
  std::atomic<uint32_t> deepest = 0;  // most requests in flight at once, roughly

  void Reset() {
    completions = 0;
    fail_at = 0;
    fail_also = nullptr;
    stall_at = 0;
    deepest = 0;
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
  void UseFiles(std::span<const int> files) override { real_->UseFiles(files); }
  Result<void> Submit(const IoRequest& request) override {
    memory_[request.tag] = request.memory;
    auto r = real_->Submit(request);
    if (real_->in_flight() > plan.deepest) plan.deepest = real_->in_flight();
    return r;
  }
  Result<IoCompletion> WaitAny(Deadline by) override {
    // As after a minute, without the minute.
    const auto stalled = MakeError(Code::kDeadlineExceeded, "TIMED_OUT", "the disk hangs");
    if (stalled_) return stalled;
    auto completion = real_->WaitAny(by);
    if (!completion.ok()) return completion;
    const int number = ++plan.completions;
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
  bool stalled_ = false;
  uint32_t lost_ = 0;  // completions that were swallowed
};

}  // namespace parkade::shim
