// Member: one process of a transition, with what it is granted and what it answered.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/io/disk_setting.h"
#include "daemon/goal.h"
#include "daemon/gpu_account.h"
#include "daemon/planner.h"
#include "daemon/process.h"
#include "daemon/registry.h"

namespace parkade::daemon {

struct Member {
  std::shared_ptr<Process> process;
  bool already = false;  // it is where the transition leads; it gets no message
  Grant grant;
  std::shared_ptr<ScratchDirectory> scratch;  // null: no bytes of it go to disk
  DiskSetting disk;                           // how its files are best used
  wire::Reply prepared{};
  bool commit_sent = false;  // there is something to undo
  wire::Reply finished{};    // of Commit or Resume
  bool is_back = false;      // a Resume has brought in what it was about
  bool was_out = false;      // before the transition, in part at least: an undo leaves that there
  DeepOutcome deep{};        // what the driver's checkpoint came to
  Bytes disk_out = 0;        // bytes that it had on disk then, and has no others of
};

// STALE_EPOCH when a caller with a higher epoch has moved one of them. 0: the caller has none.
absl::Status CheckEpoch(const ProcessList& processes, uint64_t epoch);

// Members for the processes. Those that are at their goal are done already; BUSY when one is moving
// by itself, as after the loss of its last daemon; SHIM_DISCONNECTED; CHECKPOINT_FAILED.
absl::StatusOr<std::vector<Member>> MembersFor(const ProcessList& processes, const AtGoal& at_goal,
                                               uint64_t epoch);

// Of a process whose driver's checkpoint has failed for good.
absl::Status GivenUp(int pid);

// What a pause of the members asks of the node; `stage`: host memory on the way to disk.
absl::StatusOr<std::vector<Demand>> DemandsOf(const std::vector<Member>& members, Bytes stage);

// HBM that the members lack, by GPU, as their ledgers say; a shim that has tried and failed knows
// it to the last page. What the driver's checkpoint takes again is part of it. Of tags, if any are
// named, at least that: ledgers say nothing of the room between their allocations.
GpuAccount::ByGpu Lacking(const std::vector<Member>& members,
                          const std::vector<std::string>& tags = {});

// HBM that a pause of the members gives back, by GPU: what the heaps hold less what the ledgers say
// stays.
GpuAccount::ByGpu Leaving(const std::vector<Member>& members, const Policies& policies);

// Of those that do not run.
std::vector<int> PausedPids(const std::vector<Member>& members);

}  // namespace parkade::daemon
