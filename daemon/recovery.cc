// Waits for processes to come back, judges, and resumes.
#include "daemon/recovery.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using wire::ProcessState;

// What a process does by itself it does not announce; its ledger is looked at this often meanwhile.
constexpr uint64_t kLookMs = 20;
constexpr uint64_t kLateLookMs = 1000;  // when only stragglers are left, whose coming is announced

bool IsThere(const Process& process) {
  const ProcessView view = process.View();
  if (!view.connected) return false;
  return IsOut(view.state) || view.state == ProcessState::kRunning ||
         view.state == ProcessState::kFailed;
}

std::string Pids(const ProcessList& processes) {
  std::vector<int> pids;
  for (const auto& process : processes) pids.push_back(process->pid());
  return Join(pids, ", ");
}

}  // namespace

ProcessList Revive(Journal& journal) {
  ProcessList alive;
  for (const RememberedProcess& known : journal.found().processes) {
    Fd pidfd = OpenIfAlive(known.identity);
    if (!pidfd) {
      journal.Forget(known.identity);
      continue;
    }
    alive.push_back(std::make_shared<Process>(known.identity, std::move(pidfd)));
    alive.back()->Remember(known.introduction, known.state, known.deep, known.for_turn);
  }
  return alive;
}

Recovery::Recovery(Neighbours neighbours, Limits limits)
    : to_(neighbours), limits_(limits), watcher_(to_.events.Watch()), others_(to_.registry.All()) {
  for (const auto& process : others_) {
    to_.returning.Expect(*process);
    if (process->View().deep.state == DeepMark::State::kDeep) marked_.push_back(process);
  }
  for (const BegunOperation& operation : to_.journal.found().interrupted) {
    Interrupted& entry = interrupted_.emplace_back();
    entry.operation = operation;
    for (const auto& [identity, was_out] : operation.parties) {
      auto process = to_.registry.Known(identity);
      // One that was out before is where it was, whichever way this ends; but a resume was about
      // it.
      if (process == nullptr || (was_out && operation.kind != OperationKind::kResume)) {
        continue;
      }
      auto claim = to_.registry.Take({process});
      if (!claim.ok()) continue;
      std::erase(others_, process);
      entry.parties.push_back({std::move(process), std::move(*claim)});
    }
  }
  if (!interrupted_.empty() || !others_.empty()) thread_ = std::thread([this] { Loop(); });
}

void Recovery::Stop() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
  }
  to_.returning.Close();
  if (thread_.joinable()) thread_.join();
}

void Recovery::Loop() {
  if (!marked_.empty()) to_.node.SettleDeep(marked_);
  const Deadline come_back = Deadline::InMs(limits_.come_back_ms);
  const Deadline give_up = Deadline::InMs(limits_.give_up_ms);
  for (;;) {
    const bool all_had_time = come_back.Passed();
    Release(all_had_time);
    interrupted_.remove_if([&](Interrupted& entry) {
      if (give_up.Passed()) GiveUp(entry);
      if (Advance(entry, all_had_time)) return false;
      to_.journal.End(entry.operation.number);
      return true;
    });
    if (interrupted_.empty() && others_.empty()) return;
    {
      const MutexLock lock(mu_);
      if (stopping_) return;
    }
    // The event itself is of no interest, only that something has changed.
    watcher_->Next(Deadline::InMs(all_had_time ? kLateLookMs : kLookMs));
    watcher_->TakeLost();
  }
}

void Recovery::Release(bool all_had_time) {
  std::erase_if(others_, [&](const auto& process) {
    if (!all_had_time && !process->ended() && !IsThere(*process)) return false;
    to_.returning.Done(*process);
    return true;
  });
}

bool Recovery::Advance(Interrupted& entry, bool all_had_time) {
  entry.parties.remove_if([&](const Party& party) {
    if (!party.process->ended()) return false;
    to_.returning.Done(*party.process);
    return true;
  });
  if (!entry.bring_back) {
    const bool all_there = std::all_of(entry.parties.begin(), entry.parties.end(),
                                       [](const Party& p) { return IsThere(*p.process); });
    if (!all_there && !all_had_time) return true;
    Judge(entry);
    if (entry.parties.empty()) Tell(entry, {}, absl::OkStatus());
  }
  ProcessList back;
  std::list<Party> there;  // their claims end with this
  for (auto at = entry.parties.begin(); at != entry.parties.end();) {
    const auto next = std::next(at);
    if (IsThere(*at->process)) {
      if (*entry.bring_back && IsOut(at->process->State())) back.push_back(at->process);
      there.splice(there.end(), entry.parties, at);
    }
    at = next;
  }
  if (!there.empty()) {
    absl::Status result;
    if (!back.empty()) result = to_.node.BringBack(back, entry.operation.parts);
    Tell(entry, back, result);
  }
  // First free, then told to be so: whoever waits shall find them free.
  ProcessList done;
  for (const Party& party : there) done.push_back(party.process);
  there.clear();
  for (const Party& party : entry.parties) {
    // Still claimed, for when it comes back; but nobody waits for one that may never.
    if (!party.process->connected()) done.push_back(party.process);
  }
  for (const auto& process : done) to_.returning.Done(*process);
  return !entry.parties.empty();
}

void Recovery::GiveUp(Interrupted& entry) {
  entry.parties.remove_if([&](const Party& party) {
    const Process& process = *party.process;
    if (process.ended() || process.connected()) return false;
    Log(LogLevel::kWarning,
        "process %d, of a %s that the end of the daemon before interrupted, has not come back: it "
        "is left as it is",
        process.pid(), NameOf(entry.operation.kind));
    to_.returning.Done(process);
    return true;
  });
}

void Recovery::Judge(Interrupted& entry) const {
  if (entry.operation.kind == OperationKind::kResume) {
    entry.bring_back = true;
    return;
  }
  // Those that have not come back count by what was last known of them.
  entry.bring_back = std::any_of(entry.parties.begin(), entry.parties.end(),
                                 [](const Party& p) { return !IsOut(p.process->State()); });
}

void Recovery::Tell(const Interrupted& entry, const ProcessList& moved,
                    const absl::Status& result) const {
  const bool rolls_back = entry.operation.kind != OperationKind::kResume;
  const std::string what =
      Cat("a ", NameOf(entry.operation.kind), " of ", entry.operation.parties.size(),
          " was interrupted by the end of the daemon before: ");
  const std::string waits =
      entry.parties.empty() ? "" : Cat("; ", entry.parties.size(), " not back yet");
  if (!result.ok()) {
    Log(LogLevel::kError, "%s%s stay paused: %s", what.c_str(), Pids(moved).c_str(),
        MessageOf(result).c_str());
  } else if (!moved.empty()) {
    Log(LogLevel::kWarning, "%s%s, resumed %s%s", what.c_str(),
        rolls_back ? "rolled back" : "finished", Pids(moved).c_str(), waits.c_str());
  } else {
    Log(LogLevel::kWarning, "%s%s%s", what.c_str(),
        rolls_back && !*entry.bring_back ? "all are paused" : "nothing to do", waits.c_str());
  }
}

}  // namespace parkade::daemon
