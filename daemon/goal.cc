// Reads ledgers, record by record.
#include "daemon/goal.h"

#include <algorithm>
#include <set>

#include "common/text.h"
#include "daemon/status.h"
#include "daemon/tags.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using wire::GateMode;
using wire::ProcessState;

bool GateIs(const ProcessView& view, GateMode mode) {
  return view.ledger && view.ledger->gate_mode == uint64_t(mode);
}

}  // namespace

bool IsNamed(const wire::LedgerRecord& record, const std::vector<std::string>& tags) {
  return std::find(tags.begin(), tags.end(), ReadText(record.tag)) != tags.end();
}

bool IsAway(const wire::LedgerRecord& record) {
  const auto place = wire::Place(record.place);
  return place != wire::Place::kGpu && place != wire::Place::kMoving;
}

AtGoal PausedBy(const Policies& policies, GateMode mode) {
  return [policies, mode](const Process& process, const ProcessView& view) {
    if (view.state != ProcessState::kPaused) return false;
    if (mode == GateMode::kClosed && GateIs(view, GateMode::kOpen)) return false;
    const auto ledger = process.Ledger();
    if (!ledger.ok()) return true;
    const wire::Policy own = view.introduction.default_policy;
    return std::none_of(
        ledger->records.begin(), ledger->records.end(), [&](const wire::LedgerRecord& r) {
          return wire::Place(r.place) == wire::Place::kGpu &&
                 wire::AllocationClass(r.allocation_class) == wire::AllocationClass::kPausable &&
                 policies.For(std::string(ReadText(r.tag)), own) != wire::Policy::kKeep;
        });
  };
}

AtGoal ResumedBy(const ResumeOrder& order) {
  return [tags = order.tags, gate = order.gate](const Process& process, const ProcessView& view) {
    if (view.state == ProcessState::kRunning) return true;
    if (tags.empty() || view.state != ProcessState::kPaused) return false;
    if (gate == GateMode::kOpen && !GateIs(view, GateMode::kOpen)) return false;
    const auto ledger = process.Ledger();
    if (!ledger.ok()) return false;
    bool others = false;  // with nothing out at all it would run
    for (const wire::LedgerRecord& r : ledger->records) {
      if (!IsAway(r)) continue;
      if (IsNamed(r, tags)) return false;
      others = true;
    }
    return others;
  };
}

std::set<std::string> TagsOf(std::span<const std::shared_ptr<Process>> processes) {
  std::set<std::string> tags;
  for (const auto& process : processes) {
    const auto ledger = process->Ledger();
    if (!ledger.ok()) continue;
    for (const wire::LedgerRecord& r : ledger->records) {
      if (wire::AllocationClass(r.allocation_class) == wire::AllocationClass::kForeign) continue;
      tags.insert(std::string(ReadText(r.tag)));
    }
  }
  return tags;
}

absl::Status CheckParts(const ResumeOrder& order,
                        std::span<const std::shared_ptr<Process>> processes) {
  if (order.tags.empty()) return absl::OkStatus();
  for (const auto& process : processes) {
    const ProcessView view = process->View();
    const bool opened = view.state == ProcessState::kPaused && GateIs(view, GateMode::kOpen);
    if (opened && order.gate == GateMode::kClosed) {
      return Fail(absl::StatusCode::kFailedPrecondition, "GATE_OPEN",
                  Cat("the gate of process ", process->pid(),
                      " is open, which a resume does not close: pause it with the gate closed"),
                  {{"pid", std::to_string(process->pid())}});
    }
  }
  return order.allow_empty ? absl::OkStatus() : CheckKnown(order.tags, TagsOf(processes));
}

}  // namespace parkade::daemon
