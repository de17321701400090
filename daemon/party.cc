// Sorts processes into parties and judges each.
#include "daemon/party.h"

#include <algorithm>
#include <map>

#include "daemon/member.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using Standing = Party::Standing;
using wire::ProcessState;

std::string KeyOf(const ProcessView& view) {
  const Introduction& said = view.introduction;
  if (said.job.empty() || !said.rank) {
    return Cat(view.identity.pid, " ", view.identity.start_ticks);
  }
  return Cat("job ", view.identity.uid, " ", said.job, "\n", said.role);
}

// Of one process; a party's is the worst of them.
Standing StandingOf(const ProcessView& view, bool reserved) {
  const bool moved_by_epoch = view.ledger && view.ledger->epoch != 0;
  if (!view.introduction.takes_turns || moved_by_epoch || reserved ||
      view.state == ProcessState::kFailed) {
    return Standing::kAlone;
  }
  if (IsOut(view.state) && !view.for_turn) return Standing::kHeld;
  if (!view.connected || !view.ledger) return Standing::kAway;
  if (view.state == ProcessState::kRunning) return Standing::kIn;
  return IsOut(view.state) ? Standing::kOut : Standing::kAway;
}

Standing Worse(Standing a, Standing b) {
  for (const Standing worst :
       {Standing::kAlone, Standing::kHeld, Standing::kAway, Standing::kOut}) {
    if (a == worst || b == worst) return worst;
  }
  return Standing::kIn;
}

}  // namespace

std::vector<int> Party::Pids() const {
  std::vector<int> pids;
  for (const auto& process : processes) pids.push_back(process->pid());
  return pids;
}

std::vector<Party> PartiesOf(const ProcessList& all, const std::set<int>& reserved) {
  std::map<std::string, Party> parties;
  std::set<std::string> takers;
  for (const auto& process : all) {
    const ProcessView view = process->View();
    std::string key = KeyOf(view);
    if (view.introduction.takes_turns) takers.insert(key);
    Party& party = parties[key];
    const Standing standing = StandingOf(view, reserved.contains(process->pid()));
    party.standing = party.processes.empty() ? standing : Worse(party.standing, standing);
    party.key = std::move(key);
    party.uid = view.identity.uid;
    party.came_in_ns = std::max(party.came_in_ns, process->came_in_ns());
    party.processes.push_back(process);
  }
  std::vector<Party> found;
  for (auto& [key, party] : parties) {
    if (!takers.contains(key)) continue;
    std::vector<Member> members;
    for (const auto& process : party.processes) members.emplace_back().process = process;
    if (party.standing == Standing::kIn) {
      party.holds = Leaving(members, {wire::Policy::kAuto, {}});
    }
    if (party.standing == Standing::kOut) party.lacks = Lacking(members);
    found.push_back(std::move(party));
  }
  return found;
}

}  // namespace parkade::daemon
