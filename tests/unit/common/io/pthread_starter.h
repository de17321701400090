// PthreadStarter: threads for an engine under test.
#pragma once

#include <thread>
#include <vector>

#include "common/io/io_engine.h"

namespace parkade {

class PthreadStarter final : public ThreadStarter {
 public:
  explicit PthreadStarter(size_t limit = 64) : limit_(limit) {}
  ~PthreadStarter() override { JoinAll(); }
  Result<void> Start(const char* name, void (*run)(void*), void* arg) override {
    if (threads_.size() == limit_) {
      return MakeError(Code::kUnavailable, "NO_THREADS", "starting %s", name);
    }
    threads_.emplace_back(run, arg);
    return {};
  }
  void JoinAll() override {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  const size_t limit_;
  std::vector<std::thread> threads_;
};

}  // namespace parkade
