// Finds, admits and claims processes.
#include "daemon/registry.h"

#include <algorithm>

#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {

std::shared_ptr<Process> Registry::Known(const Identity& identity) const {
  const MutexLock lock(mu_);
  const auto at = processes_.find(Key(identity.Key()));
  return at == processes_.end() ? nullptr : at->second;
}

void Registry::Add(std::shared_ptr<Process> process) {
  const MutexLock lock(mu_);
  processes_.emplace(process->identity().Key(), std::move(process));
}

bool Registry::Remove(const std::shared_ptr<Process>& process) {
  const MutexLock lock(mu_);
  const auto at = processes_.find(Key(process->identity().Key()));
  if (at == processes_.end() || at->second != process) return false;
  processes_.erase(at);
  return true;
}

ProcessList Registry::All() const {
  const MutexLock lock(mu_);
  ProcessList all;
  for (const auto& [key, process] : processes_) all.push_back(process);
  return all;
}

ProcessList Registry::List(const Caller& caller, const Selector& selector) const {
  ProcessList found;
  for (auto& process : All()) {
    if (caller.MaySee(process->identity()) && Matches(selector, process->View())) {
      found.push_back(std::move(process));
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a->pid() < b->pid(); });
  return found;
}

absl::StatusOr<std::shared_ptr<Process>> Registry::Find(const Caller& caller, int32_t pid) const {
  const Metadata metadata{{"pid", std::to_string(pid)}};
  std::shared_ptr<Process> found;
  // Two can have one pid only where one of them is in a namespace that is not visible here.
  for (auto& process : All()) {
    if (process->pid() != pid) continue;
    if (found == nullptr || process->identity().visible) found = std::move(process);
  }
  if (found == nullptr && why_missing_) return why_missing_(caller, pid);
  if (found == nullptr) {
    return Fail(absl::StatusCode::kNotFound, "NO_PROCESS", Cat("no managed process has pid ", pid),
                metadata);
  }
  if (!caller.MaySee(found->identity())) {
    return Fail(absl::StatusCode::kPermissionDenied, "UID_MISMATCH",
                Cat("process ", pid, " belongs to another user"), metadata);
  }
  return found;
}

absl::StatusOr<ProcessList> Registry::Select(const Caller& caller, const Selector& selector) const {
  if (selector.empty()) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_SELECTOR",
                "the selector is empty: name pids, a job, a role, ranks, GPUs, or all");
  }
  for (const int32_t pid : selector.pids) {
    if (auto found = Find(caller, pid); !found.ok()) return found.status();
  }
  ProcessList found = List(caller, selector);
  if (found.empty()) {
    return Fail(absl::StatusCode::kNotFound, "NO_PROCESS", "no managed process matches");
  }
  return found;
}

absl::StatusOr<Registry::Claim> Registry::Take(const ProcessList& processes) {
  {
    const MutexLock lock(mu_);
    for (const auto& process : processes) {
      if (auto s = CheckFreeLocked(*process); !s.ok()) return s;
    }
    for (const auto& process : processes) claimed_.insert(process.get());
  }
  return Claim(*this, processes);
}

void Registry::Claim::GiveBack(const ProcessList& processes) {
  for (const auto& process : processes) std::erase(processes_, process);
  registry_->Release(processes);
}

absl::Status Registry::CheckFree(const Process& process) const {
  const MutexLock lock(mu_);
  return CheckFreeLocked(process);
}

absl::Status Registry::CheckFreeLocked(const Process& process) const {
  if (!claimed_.contains(&process)) return absl::OkStatus();
  return Fail(absl::StatusCode::kFailedPrecondition, "BUSY",
              Cat("process ", process.pid(), ": another transition is under way"),
              {{"pid", std::to_string(process.pid())}});
}

void Registry::Release(const ProcessList& processes) {
  const MutexLock lock(mu_);
  for (const auto& process : processes) claimed_.erase(process.get());
}

}  // namespace parkade::daemon
