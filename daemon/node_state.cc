// One order after another, from selector to outcome.
#include "daemon/node_state.h"

#include <time.h>

#include <algorithm>
#include <map>
#include <set>

#include "daemon/host_memory.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using wire::ProcessState;

// Who holds the GPUs of the processes that could not come back, and how much is free there.
absl::Status ExplainShortage(const absl::Status& failed, const std::vector<Member>& members,
                             const Gpus& gpus) {
  std::map<std::string, Bytes> needed;
  for (const Member& member : members) {
    const auto ledger = member.process->Ledger();
    if (!ledger.ok()) continue;
    for (const wire::LedgerRecord& r : ledger->records) {
      const wire::LedgerDevice& device = ledger->header.devices[r.device];
      const bool out = wire::Place(r.place) != wire::Place::kGpu;
      if (out && device.used != 0) needed[GpuUuid(device.uuid)] += r.bytes;
    }
  }
  Metadata metadata;
  std::string text;
  for (const GpuView& gpu : gpus.Read()) {
    const auto at = needed.find(gpu.uuid);
    if (at == needed.end()) continue;
    std::vector<std::string> holders;
    for (const auto& [pid, bytes] : gpu.users) holders.push_back(Cat(pid, "=", bytes));
    const std::string held = Join(holders, ",");
    text += Cat(gpu.uuid, " has ", gpu.free, " bytes free of ", at->second, " needed, held by ",
                held.empty() ? "nobody known" : held, "; ");
    metadata = {{"gpu_uuid", gpu.uuid},
                {"needed_bytes", std::to_string(at->second)},
                {"free_bytes", std::to_string(gpu.free)},
                {"holders", held}};
    if (gpu.free < at->second) break;  // the one that is short is the one to tell of
  }
  return Annotate(failed, text, metadata);
}

// STALE_EPOCH when a caller with a higher epoch has moved one of them. 0: the caller has none.
absl::Status CheckEpoch(const ProcessList& processes, uint64_t epoch) {
  if (epoch == 0) return absl::OkStatus();
  for (const auto& process : processes) {
    const ProcessView view = process->View();
    if (!view.ledger || view.ledger->epoch <= epoch) continue;
    const std::string newer = std::to_string(view.ledger->epoch);
    return Fail(absl::StatusCode::kFailedPrecondition, "STALE_EPOCH",
                Cat("process ", process->pid(), " was moved by a caller of epoch ", newer,
                    "; this request has ", epoch),
                {{"pid", std::to_string(process->pid())}, {"epoch", newer}});
  }
  return absl::OkStatus();
}

// How much a process may lock, where that was too little.
absl::Status ExplainMemlock(const absl::Status& failed) {
  if (ReasonOf(failed) != "MEMLOCK") return failed;
  const auto pid = ReadNumber<int>(MetadataOf(failed)["pid"]);
  const auto lockable = pid ? LockableBytes(*pid) : std::nullopt;
  if (!lockable) return failed;
  return Annotate(failed, Cat("(its limit on locked memory is ", InUnits(*lockable), ") "),
                  {{"limit_bytes", std::to_string(*lockable)}});
}

// Members for the processes. Those that are at `goal` are done already; BUSY when one is moving by
// itself, as after the loss of its last daemon.
absl::StatusOr<std::vector<Member>> MembersFor(const ProcessList& processes, ProcessState goal) {
  std::vector<Member> members;
  for (const auto& process : processes) {
    const ProcessView view = process->View();
    switch (view.state) {
      case ProcessState::kRunning:
      case ProcessState::kPaused:
      case ProcessState::kPartlyMoved:
      case ProcessState::kFailed:
        break;
      case ProcessState::kPreparing:
      case ProcessState::kPrepared:
      case ProcessState::kEvicting:
      case ProcessState::kRestoring:
        return Fail(
            absl::StatusCode::kFailedPrecondition, "BUSY",
            Cat("process ", process->pid(), ": a transition of an earlier daemon is still ending"),
            {{"pid", std::to_string(process->pid())}});
    }
    Member member;
    member.process = process;
    member.already = view.state == goal;
    if (!member.already && !view.connected) {
      return Fail(absl::StatusCode::kUnavailable, "SHIM_DISCONNECTED",
                  Cat("process ", process->pid(), " is not connected now; try again"),
                  {{"pid", std::to_string(process->pid())}});
    }
    members.push_back(std::move(member));
  }
  return members;
}

}  // namespace

// What the driver says of the GPUs concerned, before and after a transition.
class NodeState::Movement {
 public:
  Movement(const Gpus& gpus, const std::vector<Member>& members)
      : gpus_(gpus), before_resident_(Resident(members)) {
    for (const auto& [uuid, bytes] : before_resident_) uuids_.push_back(uuid);
    before_ = gpus.Free(uuids_);
  }

  // The driver gives released memory back a moment late; 100 ms are enough for it. Not to the last
  // byte: pinning host memory for the backup takes page tables in HBM, 8 bytes for each 4 KiB.
  void WaitForRelease(const std::vector<Member>& members) {
    const auto resident = Resident(members);
    for (const Deadline by = Deadline::InMs(100);;) {
      after_ = gpus_.Free(uuids_);
      const bool shown = std::all_of(before_.begin(), before_.end(), [&](const auto& gpu) {
        const auto& [uuid, free] = gpu;
        const auto expected = Expected(uuid, resident);
        return after_[uuid] + expected / 256 + 8_MiB >= free + expected;
      });
      if (shown || by.Passed()) break;
      // Nothing announces it: the driver has to be asked again.
      const timespec pause{0, 2'000'000};
      nanosleep(&pause, nullptr);
    }
    after_resident_ = resident;
  }
  void Look(const std::vector<Member>& members) {
    after_ = gpus_.Free(uuids_);
    after_resident_ = Resident(members);
  }

  Outcome OutcomeOf(const Member& member, ProcessState goal, uint64_t arrived_ns) const {
    Outcome outcome;
    outcome.pid = member.process->pid();
    outcome.already = member.already || member.finished.already != 0;
    outcome.state = outcome.already ? goal : ProcessState(member.finished.state);
    outcome.stats = member.finished.stats;
    if (goal == ProcessState::kPaused && !member.already) {
      // Commit's reply begins where Prepare's ended.
      outcome.stats.gate_ns = std::max(outcome.stats.gate_ns, member.prepared.stats.gate_ns);
      outcome.stats.drain_ns = std::max(outcome.stats.drain_ns, member.prepared.stats.drain_ns);
      outcome.stats.let_through = member.prepared.stats.let_through;
    }
    const auto uuids = UuidsOf(member);
    for (const std::string& uuid : uuids) {
      const auto before = before_.find(uuid);
      const auto after = after_.find(uuid);
      if (before == before_.end() || after == after_.end()) continue;
      outcome.gpus.push_back(
          {uuid, before->second, after->second, Expected(uuid, after_resident_)});
    }
    if (goal == ProcessState::kPaused) {
      outcome.residue_bytes = gpus_.UsedBy(outcome.pid, uuids);
    }
    outcome.total_seconds = double(MonotonicNs() - arrived_ns) / 1e9;
    return outcome;
  }

 private:
  using ByGpu = std::map<std::string, Bytes>;

  static std::vector<std::string> UuidsOf(const Member& member) {
    std::vector<std::string> uuids;
    const ProcessView view = member.process->View();
    if (!view.ledger) return uuids;
    for (const wire::LedgerDevice& device : view.ledger->devices) {
      if (device.used != 0) uuids.push_back(GpuUuid(device.uuid));
    }
    return uuids;
  }

  static ByGpu Resident(const std::vector<Member>& members) {
    ByGpu resident;
    for (const Member& member : members) {
      const ProcessView view = member.process->View();
      if (!view.ledger) continue;
      for (const wire::LedgerDevice& device : view.ledger->devices) {
        if (device.used != 0) resident[GpuUuid(device.uuid)] += device.resident_bytes;
      }
    }
    return resident;
  }

  Bytes Expected(const std::string& uuid, const ByGpu& now) const {
    const auto before = before_resident_.find(uuid);
    const auto after = now.find(uuid);
    if (before == before_resident_.end() || after == now.end()) return 0;
    return before->second > after->second ? before->second - after->second
                                          : after->second - before->second;
  }

  const Gpus& gpus_;
  ByGpu before_resident_, after_resident_;
  std::vector<std::string> uuids_;
  ByGpu before_, after_;
};

absl::StatusOr<Outcomes> NodeState::Pause(const Caller& caller, const PauseOrder& order,
                                          uint64_t arrived_ns) {
  if (auto s = Check(order); !s.ok()) return s;
  auto selected = to_.registry.Select(caller, order.selector);
  if (!selected.ok()) return selected.status();
  const auto claim = to_.registry.Take(*selected);
  if (!claim.ok()) return claim.status();
  if (auto s = CheckEpoch(*selected, order.epoch); !s.ok()) return s;
  auto members = MembersFor(*selected, ProcessState::kPaused);
  if (!members.ok()) return members.status();

  Movement movement(to_.gpus, *members);
  std::vector<Scratch::Use> uses(members->size());
  const absl::Status evicted = Evict(*members, uses, order);
  for (size_t i = 0; i < uses.size(); ++i) {
    if (!evicted.ok() && (*members)[i].process->State() == ProcessState::kRunning) {
      uses[i].GiveBack();
    } else {
      uses[i].Keep();  // also of one that stayed behind paused: its bytes are there
    }
  }
  if (!evicted.ok()) return ExplainMemlock(evicted);

  movement.WaitForRelease(*members);
  Outcomes outcomes;
  for (const Member& member : *members) {
    outcomes.push_back(movement.OutcomeOf(member, ProcessState::kPaused, arrived_ns));
  }
  return outcomes;
}

absl::Status NodeState::Evict(std::vector<Member>& members, std::vector<Scratch::Use>& uses,
                              const PauseOrder& order) {
  HostBudget::Booking booking(to_.budget);
  Transition transition(members, to_.events, limits_, order.epoch);
  // Before anything moves: host memory is booked and the disk preallocated by what the ledgers say.
  if (auto s = Provide(members, uses, order, booking); !s.ok()) return s;
  if (std::all_of(members.begin(), members.end(), [](const Member& m) { return m.already; })) {
    return absl::OkStatus();
  }
  if (auto s = transition.Prepare(order.gate); !s.ok()) return s;
  // The application went on allocating until its gate closed; now the figures are exact.
  if (auto s = Provide(members, uses, order, booking); !s.ok()) {
    transition.Abort();
    return s;
  }
  return transition.Commit({order.policies, order.chunk_bytes});
}

absl::Status NodeState::Provide(std::vector<Member>& members, std::vector<Scratch::Use>& uses,
                                const PauseOrder& order, HostBudget::Booking& booking) {
  std::vector<Demand> demands;
  for (const Member& member : members) {
    auto ledger = member.process->Ledger();
    if (!ledger.ok()) return ledger.status();
    const auto process_default = member.process->View().introduction.default_policy;
    Demand& demand =
        demands.emplace_back(DemandOf(member.process->pid(), process_default, *ledger));
    demand.exact = member.already ? 0 : member.prepared.stats.pausable_bytes;
    if (member.process->identity().visible) {
      demand.groups = MemoryGroupsOf(member.process->pid());
    }
  }
  auto grants = booking.Plan(order.policies, demands);
  if (!grants.ok()) return grants.status();
  for (size_t i = 0; i < members.size(); ++i) {
    members[i].grant = (*grants)[i];
    if (members[i].grant.disk == 0 || members[i].already) continue;
    if (auto s = to_.scratch.Reserve(members[i].process, order.scratch_base, members[i].grant.disk,
                                     uses[i]);
        !s.ok()) {
      return s;
    }
    members[i].scratch = uses[i].directory();
  }
  return absl::OkStatus();
}

absl::StatusOr<Outcomes> NodeState::Resume(const Caller& caller, const ResumeOrder& order,
                                           uint64_t arrived_ns) {
  auto selected = to_.registry.Select(caller, order.selector);
  if (!selected.ok()) return selected.status();
  const auto claim = to_.registry.Take(*selected);
  if (!claim.ok()) return claim.status();
  if (auto s = CheckEpoch(*selected, order.epoch); !s.ok()) return s;
  auto members = MembersFor(*selected, ProcessState::kRunning);
  if (!members.ok()) return members.status();
  if (order.release_host) {
    // What runs may still hold a pool: its shim answers `already` and gives that back.
    for (Member& member : *members) member.already = false;
  }
  Movement movement(to_.gpus, *members);
  Transition transition(*members, to_.events, limits_, order.epoch);
  if (auto s = transition.Resume(order.release_host); !s.ok()) {
    return ReasonOf(s) == "GPU_MEMORY" ? ExplainShortage(s, *members, to_.gpus) : s;
  }
  movement.Look(*members);
  Outcomes outcomes;
  for (const Member& member : *members) {
    outcomes.push_back(movement.OutcomeOf(member, ProcessState::kRunning, arrived_ns));
  }
  return outcomes;
}

}  // namespace parkade::daemon
