// One order after another, from selector to outcome.
#include "daemon/node_state.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/host_memory.h"
#include "daemon/movement.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using wire::ProcessState;

// For what an earlier daemon has left to be dealt with: the wait for it to come back and for room,
// and a resume that stalls. One that moves bytes for longer is BUSY.
constexpr uint64_t kReturnMs = 70'000;

std::vector<int> PausedPids(const std::vector<Member>& members) {
  std::vector<int> pids;
  for (const Member& m : members) {
    if (m.process->State() != ProcessState::kRunning) pids.push_back(m.process->pid());
  }
  return pids;
}

// HBM that the members lack, by GPU. By their ledgers it is what the application asked for; a shim
// that has tried and failed knows it to the last page.
GpuAccount::ByGpu Lacking(const std::vector<Member>& members) {
  GpuAccount::ByGpu lacking;
  for (const Member& member : members) {
    if (member.already) continue;
    const auto ledger = member.process->Ledger();
    if (!ledger.ok()) continue;
    const wire::LedgerHeader& header = ledger->header;
    GpuAccount::ByGpu mine;
    for (const wire::LedgerRecord& r : ledger->records) {
      const auto place = wire::Place(r.place);
      const bool out = place != wire::Place::kGpu && place != wire::Place::kMoving;
      if (out && header.devices[r.device].used != 0)
        mine[GpuUuid(header.devices[r.device].uuid)] += r.bytes;
    }
    const wire::Reply& reply = member.finished;
    const bool named = reply.device >= 0 && size_t(reply.device) < wire::kMaxDevices;
    if (reply.code != 0 && named && header.devices[reply.device].used != 0) {
      Bytes& bytes = mine[GpuUuid(header.devices[reply.device].uuid)];
      bytes = std::max(bytes, reply.stats.needed_bytes);
    }
    for (const auto& [uuid, bytes] : mine) lacking[uuid] += bytes;
  }
  return lacking;
}

// Who holds the GPUs of the processes that could not come back, and how much is free there.
absl::Status ExplainShortage(const absl::Status& failed, const std::vector<Member>& members,
                             const Gpus& gpus) {
  const GpuAccount::ByGpu needed = Lacking(members);
  Metadata metadata;
  std::string text;
  for (const GpuView& gpu : gpus.Read()) {
    const auto at = needed.find(gpu.uuid);
    if (at == needed.end()) continue;
    std::vector<std::string> holders, held;
    for (const auto& [pid, bytes] : gpu.users) {
      holders.push_back(Cat(pid, "=", bytes));
      held.push_back(Cat(pid, " (", InUnits(bytes), ")"));
    }
    text += Cat(gpu.uuid, " has ", InUnits(gpu.free), " free of ", InUnits(at->second),
                " needed, held by ", held.empty() ? "nobody known" : Join(held, ", "), "; ");
    metadata = {{"gpu_uuid", gpu.uuid},
                {"needed_bytes", std::to_string(at->second)},
                {"free_bytes", std::to_string(gpu.free)},
                {"holders", Join(holders, ",")}};
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

// Where the backup is that an error of a disk is about: a shim knows its files by number alone.
absl::Status NameBackup(const absl::Status& failed, const std::vector<Member>& members) {
  constexpr std::string_view kOfDisk[] = {"BACKUP_MISSING", "BACKUP_CORRUPT",  "OS_ERROR",
                                          "DISK_SPACE",     "DISK_QUOTA",      "READ_ONLY",
                                          "NO_ACCESS",      "FILE_SIZE_LIMIT", "NO_FILE"};
  const std::string reason = ReasonOf(failed);
  if (std::find(std::begin(kOfDisk), std::end(kOfDisk), reason) == std::end(kOfDisk)) return failed;
  Metadata metadata = MetadataOf(failed);
  if (metadata.contains("path")) return failed;
  const auto pid = ReadNumber<int>(metadata["pid"]);
  for (const Member& member : members) {
    if (member.process->pid() != pid) continue;
    const auto scratch = member.scratch ? member.scratch : member.process->scratch();
    if (scratch == nullptr) break;
    return Annotate(failed, Cat("backup in ", scratch->path(), ": "), {{"path", scratch->path()}});
  }
  return failed;
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
absl::StatusOr<std::vector<Member>> MembersFor(const ProcessList& processes, ProcessState goal,
                                               uint64_t epoch) {
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
        return Fail(absl::StatusCode::kFailedPrecondition, "BUSY",
                    Cat("process ", process->pid(), ": a transition has not come to its end there"),
                    {{"pid", std::to_string(process->pid())}});
    }
    Member member;
    member.process = process;
    member.was_out = IsOut(view.state);
    // A shim that has nothing to do is still to hear of a caller who makes others stale.
    const bool new_epoch = view.connected && view.ledger && epoch > view.ledger->epoch;
    member.already = view.state == goal && !new_epoch;
    if (!member.already && !view.connected) {
      return Fail(absl::StatusCode::kUnavailable, "SHIM_DISCONNECTED",
                  Cat("process ", process->pid(), " is not connected now; try again"),
                  {{"pid", std::to_string(process->pid())}});
    }
    members.push_back(std::move(member));
  }
  return members;
}

// In the journal from before the first message until the processes are where they stay. Made after
// the claim and so gone before it.
class Begun {
 public:
  Begun(Journal& journal, OperationKind kind, const std::vector<Member>& members,
        const Origin& origin)
      : journal_(journal) {
    BegunOperation operation;
    operation.kind = kind;
    operation.origin = origin;
    for (const Member& m : members) {
      operation.parties.push_back({m.process->identity(), IsOut(m.process->State())});
    }
    number_ = journal_.Begin(std::move(operation));
  }
  ~Begun() { journal_.End(number_); }
  Begun(const Begun&) = delete;
  Begun& operator=(const Begun&) = delete;

 private:
  Journal& journal_;
  uint64_t number_;
};

// Nobody is selected, and that is all right with the caller.
template <typename Order>
bool IsEmpty(const absl::Status& claimed, const Order& order) {
  return order.allow_empty && ReasonOf(claimed) == "NO_PROCESS";
}

}  // namespace

absl::StatusOr<NodeState::Claimed> NodeState::Claim(const Caller& caller, const Selector& selector,
                                                    uint64_t epoch, ProcessState goal,
                                                    Course& course) {
  auto selected = to_.registry.Select(caller, selector);
  if (!selected.ok()) return selected.status();
  course.Concerns(*selected);
  for (const Deadline by = Deadline::InMs(kReturnMs);
       !to_.returning.Await(*selected, Deadline::InMs(Course::kLookMs)) && !by.Passed();) {
    if (course.cancelled()) return course.Cancellation();
  }
  auto claim = to_.registry.Take(*selected);
  if (!claim.ok()) return claim.status();
  if (auto s = CheckEpoch(*selected, epoch); !s.ok()) return s;
  auto members = MembersFor(*selected, goal, epoch);
  if (!members.ok()) return members.status();
  return Claimed{std::move(*claim), std::move(*selected), std::move(*members)};
}

absl::StatusOr<Outcomes> NodeState::Pause(const Caller& caller, const PauseOrder& order,
                                          Course& course) {
  if (auto s = Check(order); !s.ok()) return s;
  auto claimed = Claim(caller, order.selector, order.epoch, ProcessState::kPaused, course);
  if (IsEmpty(claimed.status(), order)) return Outcomes{};
  if (!claimed.ok()) return claimed.status();
  std::vector<Member>& members = claimed->members;

  const Begun begun(to_.journal, OperationKind::kPause, members, course.origin());
  Movement movement(to_.gpus, claimed->processes);
  std::vector<Scratch::Use> uses(members.size());
  Timeline timeline(course.arrived_ns());
  timeline.Ended("claim");
  const absl::Status evicted = Evict(members, uses, order, course, timeline);
  for (size_t i = 0; i < uses.size(); ++i) {
    if (!evicted.ok() && members[i].process->State() == ProcessState::kRunning) {
      uses[i].GiveBack();
    } else {
      uses[i].Keep();  // also of one that stayed behind paused: its bytes are there
    }
  }
  if (!evicted.ok()) return ExplainMemlock(NameBackup(evicted, members));

  movement.WaitForRelease();
  timeline.Ended("free figures");
  to_.account.Changed();
  Outcomes outcomes;
  for (const Member& member : members) {
    outcomes.push_back(movement.OutcomeOf(member, ProcessState::kPaused, course.arrived_ns()));
  }
  timeline.Ended("report");
  timeline.Log("pause");
  return outcomes;
}

absl::Status NodeState::Evict(std::vector<Member>& members, std::vector<Scratch::Use>& uses,
                              const PauseOrder& order, Course& course, Timeline& timeline) {
  HostBudget::Booking booking(to_.budget);
  Transition transition(members, to_.events, limits_, order.epoch, &course);
  // Before anything moves: host memory is booked and the disk preallocated by what the ledgers say.
  if (auto s = Provide(members, uses, order, booking); !s.ok()) return s;
  if (std::all_of(members.begin(), members.end(), [](const Member& m) { return m.already; })) {
    return absl::OkStatus();
  }
  timeline.Ended("plan");
  if (auto s = transition.Prepare(order.gate); !s.ok()) return s;
  timeline.Ended("prepare");
  // The application went on allocating until its gate closed; now the figures are exact.
  if (auto s = Provide(members, uses, order, booking); !s.ok()) {
    transition.Abort();
    return s;
  }
  timeline.Ended("plan");
  const absl::Status status = transition.Commit({order.policies, order.chunk_bytes});
  timeline.Ended("commit");
  return status;
}

absl::Status NodeState::Provide(std::vector<Member>& members, std::vector<Scratch::Use>& uses,
                                const PauseOrder& order, HostBudget::Booking& booking) {
  std::vector<Demand> demands;
  const std::vector<MountInfo> mounts = ReadMounts();
  for (const Member& member : members) {
    auto ledger = member.process->Ledger();
    if (!ledger.ok()) return ledger.status();
    const auto process_default = member.process->View().introduction.default_policy;
    Demand& demand =
        demands.emplace_back(DemandOf(member.process->pid(), process_default, *ledger));
    demand.exact = member.already ? 0 : member.prepared.stats.pausable_bytes;
    if (member.process->identity().visible) {
      demand.groups = MemoryGroupsOf(member.process->pid(), mounts);
      demand.stage = order.chunk_bytes;
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
                                           Course& course) {
  auto claimed = Claim(caller, order.selector, order.epoch, ProcessState::kRunning, course);
  if (IsEmpty(claimed.status(), order)) return Outcomes{};
  if (!claimed.ok()) return claimed.status();
  std::vector<Member>& members = claimed->members;
  if (order.release_host) {
    // What runs may still hold a pool: its shim answers `already` and gives that back.
    for (Member& member : members) member.already = false;
  }
  const Begun begun(to_.journal, OperationKind::kResume, members, course.origin());
  Movement movement(to_.gpus, claimed->processes);
  double waited_seconds = 0;
  Timeline timeline(course.arrived_ns());
  timeline.Ended("claim");
  if (auto s = Restore(members, order, course, &waited_seconds); !s.ok()) {
    return NameBackup(s, members);
  }
  timeline.Ended("restore");
  movement.Look();
  Outcomes outcomes;
  for (const Member& member : members) {
    outcomes.push_back(movement.OutcomeOf(member, ProcessState::kRunning, course.arrived_ns()));
    outcomes.back().wait_seconds = waited_seconds;
  }
  timeline.Ended("report");
  timeline.Log("resume");
  return outcomes;
}

absl::Status NodeState::Restore(std::vector<Member>& members, const ResumeOrder& order,
                                Course& course, double* waited_seconds) {
  ProcessList processes;
  for (const Member& member : members) processes.push_back(member.process);
  GpuAccount::Booking booking(
      to_.account, {[processes] { return ResidentOf(processes); },
                    [processes, &course] {
                      return course.cancelled() ||
                             std::any_of(processes.begin(), processes.end(),
                                         [](const auto& process) { return process->ended(); });
                    }});
  Transition transition(members, to_.events, limits_, order.epoch, &course);
  absl::Status status;
  for (const Deadline by = Deadline::InNs(order.wait_timeout_ns);;) {
    // Who lives is not to wait for room for who has ended.
    for (Member& m : members) m.already |= m.process->ended();
    status = booking.Book(Lacking(members), by);
    // Those that are back stay so; whoever waits for room does no longer.
    if (course.cancelled()) status = course.Cancellation();
    if (!status.ok()) {
      status = Annotate(status, "", {{"paused_pids", Join(PausedPids(members), ", ")}});
    } else {
      status = transition.Resume(order.release_host);
    }
    // What the driver has free may lie in pieces, or somebody else was faster: again, while there
    // is time, those that are still paused.
    if (ReasonOf(status) != "GPU_MEMORY" || by.Passed()) break;
    booking.AwaitChange(by);
  }
  *waited_seconds = booking.waited_seconds();
  for (const Member& m : members) {
    if (status.ok() && m.process->ended()) {
      status = Fail(absl::StatusCode::kUnavailable, "PROCESS_ENDED",
                    Cat("process ", m.process->pid(), " has ended"),
                    {{"pid", std::to_string(m.process->pid())}});
    }
  }
  return ReasonOf(status) == "GPU_MEMORY" ? ExplainShortage(status, members, to_.gpus) : status;
}

absl::Status NodeState::BringBack(const ProcessList& processes) {
  std::vector<Member> members;
  for (const auto& process : processes) {
    members.emplace_back().process = process;
  }
  ResumeOrder order;
  order.wait_timeout_ns = 2'000'000'000;  // somebody else's pause may be about to make room
  Course course;
  double waited_seconds;
  return Restore(members, order, course, &waited_seconds);
}

}  // namespace parkade::daemon
