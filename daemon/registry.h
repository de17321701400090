// Registry: the processes that there are, and which of them a transition has claimed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "daemon/process.h"
#include "daemon/selector.h"

namespace parkade::daemon {

using ProcessList = std::vector<std::shared_ptr<Process>>;

class Registry {
 public:
  // Says of a pid that is not here why. Any thread; may read /proc.
  using WhyMissing = std::function<absl::Status(const Caller& caller, int32_t pid)>;
  explicit Registry(WhyMissing why_missing = {}) : why_missing_(std::move(why_missing)) {}

  // The process with that identity; null when it is not known.
  std::shared_ptr<Process> Known(const Identity& identity) const EXCLUDES(mu_);
  // From now on others see it. The listener's thread alone adds and removes, once it runs.
  void Add(std::shared_ptr<Process> process) EXCLUDES(mu_);
  // The process has ended. True the first time.
  bool Remove(const std::shared_ptr<Process>& process) EXCLUDES(mu_);

  ProcessList All() const EXCLUDES(mu_);
  // Those that match and that the caller may see, by pid; none is no error.
  ProcessList List(const Caller& caller, const Selector& selector) const EXCLUDES(mu_);
  // One by pid. NOT_FOUND (NO_PROCESS) or what WhyMissing says, PERMISSION_DENIED (UID_MISMATCH).
  absl::StatusOr<std::shared_ptr<Process>> Find(const Caller& caller, int32_t pid) const
      EXCLUDES(mu_);
  // Those to move. INVALID_ARGUMENT (BAD_SELECTOR) for an empty selector, else as Find for each pid
  // that it names, NO_PROCESS when nothing matches.
  absl::StatusOr<ProcessList> Select(const Caller& caller, const Selector& selector) const
      EXCLUDES(mu_);

  // What Take would answer of it.
  absl::Status CheckFree(const Process& process) const EXCLUDES(mu_);

  // While it lives no other transition has these processes.
  class Claim {
   public:
    Claim(Registry& registry, ProcessList processes)
        : registry_(&registry), processes_(std::move(processes)) {}
    Claim(Claim&& other) noexcept
        : registry_(other.registry_), processes_(std::exchange(other.processes_, {})) {}
    Claim& operator=(Claim&&) = delete;
    ~Claim() {
      if (!processes_.empty()) registry_->Release(processes_);
    }
    // Others may have these from now on; each is one of this claim's.
    void GiveBack(const ProcessList& processes);

   private:
    Registry* registry_;
    ProcessList processes_;
  };
  // All of them or none: FAILED_PRECONDITION (BUSY) names the one that is taken.
  absl::StatusOr<Claim> Take(const ProcessList& processes) EXCLUDES(mu_);

 private:
  using Key = std::tuple<std::string, uint64_t, int32_t, uint64_t>;

  absl::Status CheckFreeLocked(const Process& process) const REQUIRES(mu_);
  void Release(const ProcessList& processes) EXCLUDES(mu_);

  const WhyMissing why_missing_;
  mutable Mutex mu_;  // innermost; Process's is not taken under it
  std::map<Key, std::shared_ptr<Process>> processes_ GUARDED_BY(mu_);
  std::set<const Process*> claimed_ GUARDED_BY(mu_);
};

}  // namespace parkade::daemon
