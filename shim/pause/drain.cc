// Drains each context on a thread of its own, since the waiting call has no time-out.
#include "shim/pause/drain.h"

#include <algorithm>
#include <optional>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/scoped_context.h"
#include "shim/libc/thread.h"
#include "shim/pause/busy_streams.h"
#include "shim/pause/gate.h"

namespace parkade::shim {

// Shared with its thread, which may outlive the Run that started it.
struct Drain::Waiter {
  Waiter(const Driver& d, ImplicitWait& w, Contexts::Entry e) : driver(d), wait(w), entry(e) {}

  const Driver& driver;
  ImplicitWait& wait;
  const Contexts::Entry entry;
  Mutex mu;
  CondVar changed;
  std::optional<CUresult> result GUARDED_BY(mu);  // none: still at it
  bool given_up GUARDED_BY(mu) = false;           // the gate may be open again

  bool IsGivenUp() {
    MutexLock lock(mu);
    return given_up;
  }
  void GiveUp() {
    MutexLock lock(mu);
    given_up = true;
  }

  CUresult Wait() {
    const CUresult waited = wait.Run(entry.context);
    if (waited != CUDA_ERROR_OUT_OF_MEMORY || IsGivenUp()) return waited;
    // A card full to the last page has no room for the allocation that the wait is made of. Where
    // the gate is closed and nothing captures, the plain wait harms nobody.
    Gate::StopYielding();
    if (!Gate::IsClosed()) return waited;
    ScopedContext current(driver, entry.context);
    return current.status() == CUDA_SUCCESS ? driver.ctx_synchronize() : current.status();
  }

  static void Work(void* arg) {
    std::unique_ptr<std::shared_ptr<Waiter>> owned(static_cast<std::shared_ptr<Waiter>*>(arg));
    Waiter& self = **owned;
    const CUresult result = self.Wait();
    MutexLock lock(self.mu);
    self.result = result;
    self.changed.NotifyAll();
  }

  // Empty when it has not ended. Looks at `cancel` now and then, which raises no wake-up.
  std::optional<CUresult> WaitUntil(Deadline by, const std::atomic<bool>& cancel) {
    constexpr uint64_t kLookNs = 10'000'000;
    MutexLock lock(mu);
    while (!result && !by.Passed() && !cancel.load(std::memory_order_acquire)) {
      changed.WaitUntil(mu, by.LeftNs() < kLookNs ? by : Deadline::InNs(kLookNs));
    }
    return result;
  }
};

Drain::Drain(const Driver& driver, const Contexts& contexts, const Streams& streams,
             ImplicitWait& wait)
    : driver_(driver), contexts_(contexts), streams_(streams), wait_(wait) {}

Drain::~Drain() = default;

Result<void> Drain::Run(Deadline by, const std::atomic<bool>& cancel, int* device) {
  const uint64_t start_ns = MonotonicNs();
  const auto unfinished = [&](const Waiter& w) {
    *device = w.entry.device;
    return cancel.load(std::memory_order_acquire)
               ? MakeError(Code::kCancelled, "CANCELLED", "cancelled while device %d drained",
                           w.entry.device)
               : Explain(start_ns, device);
  };
  // First the waiters of an earlier, given up drain: more threads would pile up behind a hung GPU.
  // They know nothing of work that was submitted since, so their end is not that of this drain.
  std::erase_if(late_, [&](auto& w) { return w->WaitUntil(by, cancel).has_value(); });
  if (!late_.empty()) return unfinished(*late_.front());

  std::vector<std::shared_ptr<Waiter>> waiters;
  for (const Contexts::Entry& entry : contexts_.List()) {
    auto waiter = std::make_shared<Waiter>(driver_, wait_, entry);
    auto* arg = new std::shared_ptr<Waiter>(waiter);
    auto thread = Thread::Start("parkade-drain", Waiter::Work, arg);
    if (!thread.ok()) {
      delete arg;
      for (auto& w : waiters) w->GiveUp();
      late_ = std::move(waiters);
      return thread.error();
    }
    thread->Detach();
    waiters.push_back(std::move(waiter));
  }
  Result<void> result;
  for (auto& w : waiters) {
    const std::optional<CUresult> ended = w->WaitUntil(by, cancel);
    if (!ended) {
      if (result.ok()) result = unfinished(*w);
      w->GiveUp();
      late_.push_back(std::move(w));
    } else if (*ended != CUDA_SUCCESS && result.ok()) {
      *device = w->entry.device;
      result = CudaError(driver_, *ended, "drain device %d", w->entry.device);
    }
  }
  return result;
}

Error Drain::Explain(uint64_t since_ns, int* device) {
  constexpr uint64_t kSurveyMs = 500;
  const Deadline by = Deadline::InMs(kSurveyMs);
  std::string busy;
  // A capture would end by the survey: none may begin any more, nor may one be under way.
  Gate::StopYielding();
  const bool shut = Gate::IsClosed();
  for (const Contexts::Entry& entry : shut ? contexts_.List() : std::vector<Contexts::Entry>{}) {
    const auto streams = BusyStreams(driver_, entry.context, streams_.List(entry.context), by);
    if (streams.empty()) continue;
    if (busy.empty()) *device = entry.device;
    busy += busy.empty() ? "" : "; ";
    busy += "device " + std::to_string(entry.device) + " works on " + NameStreams(streams);
  }
  if (busy.empty()) busy = "device " + std::to_string(std::max(*device, 0)) + " works";
  const double seconds = double(MonotonicNs() - since_ns) / 1e9;
  return MakeError(Code::kFailedPrecondition, "BUSY", "after %.1f s %s; nothing has changed",
                   seconds, busy.c_str());
}

}  // namespace parkade::shim
