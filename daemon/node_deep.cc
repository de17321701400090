// The driver's process checkpoint around pauses and resumes.
#include <algorithm>

#include "daemon/explain.h"
#include "daemon/node_state.h"

namespace parkade::daemon {
namespace {

bool IsDeep(const Member& member) {
  return member.process->View().deep.state == DeepMark::State::kDeep;
}

}  // namespace

DeepPause NodeState::DeepOf(std::vector<Member>& members, DeepMark::State state) const {
  std::vector<Member*> chosen;
  for (Member& member : members) {
    if (member.process->View().deep.state == state) chosen.push_back(&member);
  }
  return DeepPause(chosen, to_.events, to_.gpus, deep_);
}

void NodeState::GoDeep(std::vector<Member>& members, DeepPause& others) {
  for (Member& member : members) {
    if (!IsDeep(member)) continue;
    member.deep.concerns = member.deep.deep = true;
    const DeepMark mark = member.process->View().deep;
    for (const auto& [uuid, bytes] : mark.bytes) member.deep.bytes += bytes;
  }
  others.Down(to_.journal);
}

absl::Status NodeState::Surface(std::vector<Member>& members, int32_t priority) {
  // Nobody is to wait for the driver's figures for nothing.
  if (std::none_of(members.begin(), members.end(), IsDeep)) return absl::OkStatus();
  DeepPause deep = DeepOf(members, DeepMark::State::kDeep);
  GpuAccount::ByGpu needed;
  for (const Member& member : members) {
    for (const auto& [uuid, bytes] : member.process->View().deep.bytes) needed[uuid] += bytes;
  }
  GpuAccount::Booking booking(to_.account, {.resident = [] { return GpuAccount::ByGpu{}; },
                                            .gives_up = [] { return false; },
                                            .priority = priority});
  if (auto s = booking.Book(needed, Deadline::InMs(0)); !s.ok()) {
    return ExplainShortage(s, needed, to_.gpus);
  }
  return deep.Up();
}

void NodeState::SettleDeep(const ProcessList& processes) {
  std::vector<Member> members;
  for (const auto& process : processes) members.emplace_back().process = process;
  DeepOf(members, DeepMark::State::kDeep).Settle();
}

}  // namespace parkade::daemon
