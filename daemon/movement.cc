// Compares the driver's figures with the ledgers'.
#include "daemon/movement.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "common/deadline.h"
#include "daemon/selector.h"

namespace parkade::daemon {
namespace {

std::vector<std::string> UuidsOf(const Member& member) {
  std::vector<std::string> uuids;
  const ProcessView view = member.process->View();
  if (!view.ledger) return uuids;
  for (const wire::LedgerDevice& device : view.ledger->devices) {
    if (device.used != 0) uuids.push_back(GpuUuid(device.uuid));
  }
  return uuids;
}

}  // namespace

GpuAccount::ByGpu ResidentOf(const ProcessList& processes) {
  GpuAccount::ByGpu resident;
  for (const auto& process : processes) {
    const ProcessView view = process->View();
    if (!view.ledger) continue;
    for (const wire::LedgerDevice& device : view.ledger->devices) {
      if (device.used != 0) resident[GpuUuid(device.uuid)] += device.resident_bytes;
    }
  }
  return resident;
}

Movement::Movement(const Gpus& gpus, ProcessList processes)
    : gpus_(gpus), processes_(std::move(processes)), before_resident_(ResidentOf(processes_)) {
  for (const auto& [uuid, bytes] : before_resident_) uuids_.push_back(uuid);
  before_ = gpus_.Free(uuids_);
}

void Movement::WaitForRelease() {
  const auto resident = ResidentOf(processes_);
  for (const Deadline by = Deadline::InMs(100);;) {
    after_ = gpus_.Free(uuids_);
    // Not to the last byte: pinning host memory for the backup takes page tables in HBM, 8 bytes
    // for each 4 KiB.
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

void Movement::Look() {
  after_ = gpus_.Free(uuids_);
  after_resident_ = ResidentOf(processes_);
}

Outcome Movement::OutcomeOf(const Member& member, wire::ProcessState goal,
                            uint64_t arrived_ns) const {
  using wire::ProcessState;
  Outcome outcome;
  outcome.pid = member.process->pid();
  outcome.already = member.already || member.finished.already != 0;
  outcome.state = member.already ? member.process->State() : ProcessState(member.finished.state);
  if (member.process->View().deep.state == DeepMark::State::kFailed) {
    outcome.state = ProcessState::kFailed;
  }
  outcome.deep = member.deep;
  outcome.stats = member.finished.stats;
  if (goal == ProcessState::kPaused && !member.already) {
    // Commit's reply begins where Prepare's ended.
    const wire::Stats& prepared = member.prepared.stats;
    outcome.stats.gate_ns = std::max(outcome.stats.gate_ns, prepared.gate_ns);
    outcome.stats.drain_ns = std::max(outcome.stats.drain_ns, prepared.drain_ns);
    outcome.stats.let_through = prepared.let_through;
  }
  const auto uuids = UuidsOf(member);
  for (const std::string& uuid : uuids) {
    const auto before = before_.find(uuid);
    const auto after = after_.find(uuid);
    if (before == before_.end() || after == after_.end()) continue;
    outcome.gpus.push_back({uuid, before->second, after->second, Expected(uuid, after_resident_)});
  }
  if (goal == ProcessState::kPaused) outcome.residue_bytes = gpus_.UsedBy(outcome.pid, uuids);
  outcome.total_seconds = double(MonotonicNs() - arrived_ns) / 1e9;
  return outcome;
}

Bytes Movement::Expected(const std::string& uuid, const GpuAccount::ByGpu& now) const {
  const auto before = before_resident_.find(uuid);
  const auto after = now.find(uuid);
  if (before == before_resident_.end() || after == now.end()) return 0;
  return before->second > after->second ? before->second - after->second
                                        : after->second - before->second;
}

}  // namespace parkade::daemon
