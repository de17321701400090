// PauseHooks: functions of the application that run before a pause of its process and after it runs
// again, registered through parkade.h.
//
// They run one after the other on a thread of their own, outside the gate, in relaxed capture mode:
// what they do on the GPU harms no capture. Each has a deadline. What cannot be stopped is left
// running, and until it has ended no other hook runs.
#pragma once

#include <pthread.h>

#include <atomic>
#include <string_view>

#include "common/deadline.h"
#include "common/mutex.h"
#include "common/result.h"
#include "shim/cuda/driver.h"

namespace parkade::shim {

class PauseHooks {
 public:
  enum class When : uint8_t { kNever = 0, kBeforePause = 1, kAfterResume = 2 };
  using Function = int (*)(void* user);

  static constexpr size_t kMost = 32;             // registered at a time
  static constexpr uint64_t kMostAllMs = 10'000;  // a Run takes no longer, the daemon waits for it

  // The process's own. Never destroyed.
  static PauseHooks& Get();

  // A number above 0, or 0 when kMost are registered. Any thread.
  int Add(When when, std::string_view name, Function function, void* user, uint64_t timeout_ms);

  // kRemoved: it does not run any more, and will not. kRuns: it has not ended within kMostAllMs,
  // and `user` must stay; it will not run again. From inside a hook that hook is kRemoved at once.
  // Any thread.
  enum class Removal : uint8_t { kRemoved, kRuns, kUnknown };
  Removal Remove(int number);

  // Runs those of a kind in the order of their registration. FAILED_PRECONDITION, naming the hook:
  // HOOK_FAILED, it has returned another value than 0; HOOK_TIMEOUT, it runs on. Before a pause the
  // first that fails is the last that runs; after a resume all run, and the first failure is told.
  // CANCELLED when `cancel` becomes true: what runs then runs on. Where one still runs from before,
  // those after a resume follow it, though the answer is HOOK_TIMEOUT. Operation thread.
  Result<void> Run(When when, const Driver& driver, const std::atomic<bool>& cancel);

  // In a forked child: no hook runs here, all stay registered.
  void ResetAfterFork();

 private:
  struct Hook {
    int number = 0;  // 0: free
    When when = When::kNever;
    char name[32] = {};
    Function function = nullptr;
    void* user = nullptr;
    uint64_t timeout_ms = 0;
  };
  struct Failure {
    bool failed = false;
    char name[32] = {};
    int returned = 0;
  };

  static void Work(void* self);
  void RunAll();
  // Runs those of `when_`. False: this is a child that one of them has forked and let return.
  bool RunKind(int pid) REQUIRES(mu_);
  // The next to run of `when_`, of those registered when the run began; number 0: there is none.
  Hook Next(int after) const REQUIRES(mu_);
  void Begin(When when, const Driver& driver) REQUIRES(mu_);
  Result<void> Overdue() REQUIRES(mu_);

  Mutex mu_;  // innermost
  CondVar changed_;
  Hook hooks_[kMost] GUARDED_BY(mu_);
  int last_number_ GUARDED_BY(mu_) = 0;

  bool busy_ GUARDED_BY(mu_) = false;      // the thread lives
  bool given_up_ GUARDED_BY(mu_) = false;  // nobody waits for it: it starts no other hook
  When when_ GUARDED_BY(mu_) = When::kNever;
  int last_of_run_ GUARDED_BY(mu_) = 0;      // numbers behind it have been given since
  bool owes_after_ GUARDED_BY(mu_) = false;  // the thread is to run those after a resume as well
  const Driver* driver_ GUARDED_BY(mu_) = nullptr;
  Hook current_ GUARDED_BY(mu_);           // number 0: between two
  uint64_t began_ns_ GUARDED_BY(mu_) = 0;  // the current one
  pthread_t runner_ GUARDED_BY(mu_){};
  Failure failure_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
