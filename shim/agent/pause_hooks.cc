// Registers the application's hooks and runs them with deadlines.
#include "shim/agent/pause_hooks.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "common/text.h"
#include "shim/heap/tag_name.h"
#include "shim/libc/thread.h"

#define PARKADE_IMPLEMENTATION
#include "shim/include/parkade/parkade.h"

namespace parkade::shim {

static_assert(PARKADE_HOOK_MOST_MS == PauseHooks::kMostAllMs);
static_assert(PARKADE_BEFORE_PAUSE == int(PauseHooks::When::kBeforePause) &&
              PARKADE_AFTER_RESUME == int(PauseHooks::When::kAfterResume));

namespace {

constexpr uint64_t kLookMs = 10;  // how often a cancellation is looked for, which wakes nobody

constinit PauseHooks the_hooks;

}  // namespace

PauseHooks& PauseHooks::Get() { return the_hooks; }

int PauseHooks::Add(When when, std::string_view name, Function function, void* user,
                    uint64_t timeout_ms) {
  MutexLock lock(mu_);
  const auto free = std::find_if(std::begin(hooks_), std::end(hooks_),
                                 [](const Hook& hook) { return hook.number == 0; });
  if (free == std::end(hooks_) || last_number_ == INT_MAX) return 0;
  *free = {++last_number_, when, {}, function, user, timeout_ms};
  CopyText(free->name, name);
  return free->number;
}

PauseHooks::Removal PauseHooks::Remove(int number) {
  MutexLock lock(mu_);
  const auto found = std::find_if(std::begin(hooks_), std::end(hooks_),
                                  [number](const Hook& hook) { return hook.number == number; });
  if (number <= 0 || found == std::end(hooks_)) return Removal::kUnknown;
  found->number = 0;
  const auto runs = [&] { return current_.number == number && runner_ != pthread_self(); };
  for (const Deadline by = Deadline::InMs(kMostAllMs); runs();) {
    if (by.Passed()) return Removal::kRuns;
    changed_.WaitUntil(mu_, by);
  }
  return Removal::kRemoved;
}

PauseHooks::Hook PauseHooks::Next(int after) const {
  Hook next;
  for (const Hook& hook : hooks_) {
    if (hook.when != when_ || hook.number <= after || hook.number > last_of_run_) continue;
    if (next.number == 0 || hook.number < next.number) next = hook;
  }
  return next;
}

Result<void> PauseHooks::Run(When when, const Driver& driver, const std::atomic<bool>& cancel) {
  MutexLock lock(mu_);
  if (busy_) {
    if (when == When::kAfterResume) owes_after_ = true;
    return Overdue();
  }
  Begin(when, driver);
  if (Next(0).number == 0) return {};
  busy_ = true;
  mu_.Unlock();
  auto thread = Thread::Start("parkade-hook", Work, this);
  if (thread.ok()) thread->Detach();
  mu_.Lock();
  if (!thread.ok()) {
    busy_ = false;
    return thread.error();
  }
  const Deadline all = Deadline::InMs(kMostAllMs);
  while (busy_) {
    const bool late =
        current_.number != 0 && MonotonicNs() - began_ns_ > current_.timeout_ms * 1'000'000;
    const bool cancelled = cancel.load(std::memory_order_acquire);
    if (late || cancelled || all.Passed()) {
      given_up_ = true;
      if (cancelled) return MakeError(Code::kCancelled, "CANCELLED", "cancelled while hooks ran");
      return Overdue();
    }
    changed_.WaitUntil(mu_, Deadline::InMs(kLookMs));
  }
  if (!failure_.failed) return {};
  return MakeError(Code::kFailedPrecondition, "HOOK_FAILED", "hook %s returned %d", failure_.name,
                   failure_.returned);
}

void PauseHooks::Begin(When when, const Driver& driver) {
  when_ = when;
  last_of_run_ = last_number_;
  given_up_ = false;
  driver_ = &driver;
  current_ = {};
  failure_ = {};
}

Result<void> PauseHooks::Overdue() {
  if (current_.number == 0) {
    return MakeError(Code::kFailedPrecondition, "HOOK_TIMEOUT", "hooks take more than %llu s",
                     (unsigned long long)kMostAllMs / 1000);
  }
  return MakeError(Code::kFailedPrecondition, "HOOK_TIMEOUT", "hook %s has run for %.1f s",
                   current_.name, double(MonotonicNs() - began_ns_) / 1e9);
}

void PauseHooks::Work(void* self) { static_cast<PauseHooks*>(self)->RunAll(); }

void PauseHooks::RunAll() {
  const pid_t pid = getpid();
  const Driver* driver;
  {
    MutexLock lock(mu_);
    driver = driver_;
    runner_ = pthread_self();
  }
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver->capture_mode_exchange(&mode);  // for as long as this thread lives
  MutexLock lock(mu_);
  do {
    if (!RunKind(pid)) return;
    if (owes_after_) Begin(When::kAfterResume, *driver);
  } while (std::exchange(owes_after_, false));
  busy_ = false;
  changed_.NotifyAll();
}

bool PauseHooks::RunKind(int pid) {
  for (Hook hook = Next(0); hook.number != 0; hook = Next(hook.number)) {
    if (given_up_ || (failure_.failed && when_ == When::kBeforePause)) break;
    current_ = hook;
    began_ns_ = MonotonicNs();
    mu_.Unlock();
    const int returned = hook.function(hook.user);
    mu_.Lock();
    if (getpid() != pid) return false;
    current_ = {};
    if (returned != 0 && !failure_.failed) {
      failure_ = {true, {}, returned};
      CopyText(failure_.name, ReadText(hook.name));
    }
    changed_.NotifyAll();
  }
  return true;
}

void PauseHooks::ResetAfterFork() {
  mu_.ResetAfterFork();
  MutexLock lock(mu_);
  busy_ = owes_after_ = false;
  current_ = {};
}

}  // namespace parkade::shim

using parkade::shim::PauseHooks;

extern "C" __attribute__((visibility("default"))) int parkade_hook_add(int when, const char* name,
                                                                       int (*function)(void*),
                                                                       void* user,
                                                                       unsigned timeout_ms) {
  const bool known = when == PARKADE_BEFORE_PAUSE || when == PARKADE_AFTER_RESUME;
  if (!known || function == nullptr || timeout_ms == 0 || timeout_ms > PauseHooks::kMostAllMs ||
      name == nullptr || !parkade::shim::IsTagName({name, strnlen(name, PARKADE_TAG_BYTES)})) {
    return PARKADE_E_INVAL;
  }
  const int number =
      PauseHooks::Get().Add(PauseHooks::When(when), name, function, user, timeout_ms);
  return number != 0 ? number : PARKADE_E_NOSPACE;
}

extern "C" __attribute__((visibility("default"))) int parkade_hook_remove(int hook) {
  switch (PauseHooks::Get().Remove(hook)) {
    case PauseHooks::Removal::kRemoved:
      return PARKADE_OK;
    case PauseHooks::Removal::kRuns:
      return PARKADE_E_STATE;
    default:
      return PARKADE_E_INVAL;
  }
}
