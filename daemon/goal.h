// Goals: whether a process is already where a pause or a resume would lead it, by what its ledger
// says. Decides for no shim: that has the last word.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/orders.h"
#include "daemon/process.h"

namespace parkade::daemon {

// `view` is of the process, and was taken just before.
using AtGoal = std::function<bool(const Process& process, const ProcessView& view)>;

// Paused, with nothing in HBM that the policies would move, and the gate closed where that is asked
// for. Of a process whose ledger cannot be read the state alone counts.
AtGoal PausedBy(const Policies& policies, wire::GateMode mode);
// Running; or, where the order names tags, with none of theirs out and the gate as asked.
AtGoal ResumedBy(const ResumeOrder& order);

// Bytes of an allocation are neither in HBM nor on their way.
bool IsAway(const wire::LedgerRecord& record);

// Its tag is one of these.
bool IsNamed(const wire::LedgerRecord& record, const std::vector<std::string>& tags);

// The tags of their memory that a pause could move.
std::set<std::string> TagsOf(std::span<const std::shared_ptr<Process>> processes);

// Of a resume of tags: UNKNOWN_TAG for one that no process has, with those that they have as
// known_tags; GATE_OPEN where the gate is to be closed and is open.
absl::Status CheckParts(const ResumeOrder& order,
                        std::span<const std::shared_ptr<Process>> processes);

}  // namespace parkade::daemon
