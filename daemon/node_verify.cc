// Reading the backups of paused processes, from selector to outcomes.
#include <algorithm>

#include "daemon/explain.h"
#include "daemon/node_state.h"
#include "daemon/status.h"
#include "daemon/verification.h"
#include "daemon/words.h"

namespace parkade::daemon {

absl::StatusOr<Outcomes> NodeState::Verify(const Caller& caller, const VerifyOrder& order,
                                           Course& course) {
  auto selected = to_.registry.Select(caller, order.selector);
  if (order.allow_empty && ReasonOf(selected.status()) == "NO_PROCESS") return Outcomes{};
  if (!selected.ok()) return selected.status();
  if (auto s = AwaitReturn(*selected, course); !s.ok()) return s;
  ProcessList out;
  for (const auto& process : *selected) {
    if (IsOut(process->State())) out.push_back(process);
  }
  if (out.empty()) {
    std::vector<int> pids;
    for (const auto& process : *selected) pids.push_back(process->pid());
    return Fail(absl::StatusCode::kFailedPrecondition, "NOT_PAUSED",
                Cat("process ", Join(pids, ", "), " is not paused: there is no backup to read"),
                {{"pid", std::to_string(pids.front())}});
  }
  course.Concerns(out);
  Verification verification(out, course, limits_.stall_ms);
  const absl::Status read = verification.Run();
  if (read.ok()) return verification.outcomes();
  course.Report(verification.outcomes());
  std::vector<Member> members;
  for (const auto& process : out) members.emplace_back().process = process;
  return NameBackup(Annotate(read, "", {{"operation", course.origin().id}}), members);
}

}  // namespace parkade::daemon
