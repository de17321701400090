// FaultyEngine: a real engine whose nth completion is turned into an error on request.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "common/io/io_engine.h"
#include "common/io/pool_engine.h"
#include "tests/unit/common/io/pthread_starter.h"

namespace parkade::shim {

// For all engines that FaultyEngine::Make makes from now on.
struct IoFaults {
  int completions = 0;  // counted so far
  int fail_at = 0;      // 0: none fails
  std::optional<Error> error;
  uint32_t deepest = 0;  // most requests in flight at once
};

class FaultyEngine final : public IoEngine {
 public:
  static inline IoFaults plan;

  static IoEngineChoice Make(uint32_t depth) {
    IoEngineChoice choice = MakeIoEngine(depth, std::make_unique<PthreadStarter>());
    choice.engine = std::make_unique<FaultyEngine>(std::move(choice.engine));
    return choice;
  }

  explicit FaultyEngine(std::unique_ptr<IoEngine> real) : real_(std::move(real)) {}
  void UseFiles(std::span<const int> files) override { real_->UseFiles(files); }
  Result<void> Submit(const IoRequest& request) override {
    auto r = real_->Submit(request);
    plan.deepest = std::max(plan.deepest, real_->in_flight());
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
