// Reads ledgers.
#include "daemon/member.h"

#include <algorithm>

#include "common/text.h"
#include "daemon/host_memory.h"
#include "daemon/selector.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {

using wire::ProcessState;

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

absl::StatusOr<std::vector<Member>> MembersFor(const ProcessList& processes, const AtGoal& at_goal,
                                               uint64_t epoch) {
  std::vector<Member> members;
  for (const auto& process : processes) {
    const ProcessView view = process->View();
    if (view.deep.state == DeepMark::State::kFailed) return GivenUp(process->pid());
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
    if (member.was_out && view.ledger) {
      member.disk_out = std::min<Bytes>(view.ledger->disk_backup_bytes, kMostClaimed);
    }
    // A shim that has nothing to do is still to hear of a caller who makes others stale.
    const bool new_epoch = view.connected && view.ledger && epoch > view.ledger->epoch;
    member.already = !new_epoch && at_goal(*process, view);
    if (!member.already && !view.connected) {
      return Fail(absl::StatusCode::kUnavailable, "SHIM_DISCONNECTED",
                  Cat("process ", process->pid(), " is not connected now; try again"),
                  {{"pid", std::to_string(process->pid())}});
    }
    members.push_back(std::move(member));
  }
  return members;
}

absl::StatusOr<std::vector<Demand>> DemandsOf(const std::vector<Member>& members, Bytes stage) {
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
      demand.stage = stage;
    }
  }
  return demands;
}

absl::Status GivenUp(int pid) {
  return Fail(absl::StatusCode::kFailedPrecondition, "CHECKPOINT_FAILED",
              Cat("the driver has given up process ", pid,
                  " during its process checkpoint: it cannot be resumed"),
              {{"pid", std::to_string(pid)}});
}

GpuAccount::ByGpu Lacking(const std::vector<Member>& members,
                          const std::vector<std::string>& tags) {
  GpuAccount::ByGpu lacking;
  for (const Member& member : members) {
    if (member.already) continue;
    for (const auto& [uuid, bytes] : member.process->View().deep.bytes) lacking[uuid] += bytes;
    const auto ledger = member.process->Ledger();
    if (!ledger.ok()) continue;
    const wire::LedgerHeader& header = ledger->header;
    GpuAccount::ByGpu mine;
    for (const wire::LedgerRecord& r : ledger->records) {
      const bool wanted = tags.empty() || IsNamed(r, tags);
      if (!IsAway(r) || !wanted || header.devices[r.device].used == 0) continue;
      Bytes& bytes = mine[GpuUuid(header.devices[r.device].uuid)];
      bytes = std::min(bytes + std::min<Bytes>(r.bytes, kMostClaimed), kMostClaimed);
    }
    const wire::Reply& reply = member.finished;
    const bool named = reply.device >= 0 && size_t(reply.device) < wire::kMaxDevices;
    if (reply.code != 0 && named && header.devices[reply.device].used != 0) {
      Bytes& bytes = mine[GpuUuid(header.devices[reply.device].uuid)];
      bytes = std::max(bytes, std::min<Bytes>(reply.stats.needed_bytes, kMostClaimed));
    }
    for (size_t i = 0; tags.empty() && i < wire::kMaxDevices; ++i) {
      if (header.devices[i].used == 0 || header.out_bytes[i] == 0) continue;
      Bytes& bytes = mine[GpuUuid(header.devices[i].uuid)];
      bytes = std::max(bytes, std::min<Bytes>(header.out_bytes[i], kMostClaimed));
    }
    for (const auto& [uuid, bytes] : mine) lacking[uuid] += bytes;
  }
  return lacking;
}

GpuAccount::ByGpu Leaving(const std::vector<Member>& members, const Policies& policies) {
  GpuAccount::ByGpu leaving;
  for (const Member& member : members) {
    if (member.already) continue;
    const auto ledger = member.process->Ledger();
    if (!ledger.ok()) continue;
    const auto own = member.process->View().introduction.default_policy;
    std::vector<Bytes> kept(wire::kMaxDevices);
    for (const wire::LedgerRecord& r : ledger->records) {
      const bool stays =
          wire::AllocationClass(r.allocation_class) == wire::AllocationClass::kHeld ||
          policies.For(std::string(ReadText(r.tag)), own) == wire::Policy::kKeep;
      const bool foreign =
          wire::AllocationClass(r.allocation_class) == wire::AllocationClass::kForeign;
      const bool there = wire::Place(r.place) == wire::Place::kGpu;
      if (stays && there && !foreign) kept[size_t(r.device)] += r.bytes;
    }
    for (size_t i = 0; i < wire::kMaxDevices; ++i) {
      const wire::LedgerDevice& device = ledger->header.devices[i];
      const Bytes resident = std::min<Bytes>(device.resident_bytes, kMostClaimed);
      if (device.used != 0 && resident > kept[i])
        leaving[GpuUuid(device.uuid)] += resident - kept[i];
    }
  }
  return leaving;
}

std::vector<int> PausedPids(const std::vector<Member>& members) {
  std::vector<int> pids;
  for (const Member& m : members) {
    if (m.process->State() != ProcessState::kRunning) pids.push_back(m.process->pid());
  }
  return pids;
}

}  // namespace parkade::daemon
