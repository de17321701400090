// FaultyEngine: a real engine whose nth completion is turned into an error on request.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "common/io/io_engine.h"
#include "common/io/pool_engine.h"
#include "tests/unit/common/io/pthread_starter.h"

namespace parkade::shim {

// For all engines that FaultyEngine::Make makes from now on.
struct IoFaults {
  std::atomic<int> completions = 0;  // counted so far
  int fail_at = 0;                   // 0: none fails
  std::optional<Error> error;
  std::atomic<uint32_t> deepest = 0;  // most requests in flight at once, roughly

  void Reset() {
    completions = 0;
    fail_at = 0;
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
    auto r = real_->Submit(request);
    if (real_->in_flight() > plan.deepest) plan.deepest = real_->in_flight();
    return r;
  }
  Result<IoCompletion> WaitAny(Deadline by) override {
    auto completion = real_->WaitAny(by);
    if (completion.ok() && ++plan.completions == plan.fail_at) completion->result = *plan.error;
    return completion;
  }
  uint32_t in_flight() const override { return real_->in_flight(); }
  uint32_t depth() const override { return real_->depth(); }

 private:
  std::unique_ptr<IoEngine> real_;
};

}  // namespace parkade::shim
