// Compares what is waited for with what was said last.
#include "shim/agent/turn_asker.h"

#include <algorithm>
#include <cstring>

namespace parkade::shim {

void TurnAsker::Joined() {
  waits_.SetHeard(true);
  last_ = wire::Make<wire::AskTurn>();
  work_refused_ = false;
}

std::optional<wire::AskTurn> TurnAsker::Due(bool at_gate, uint64_t now_ns) {
  if (!waits_.takes_turns()) return {};
  const bool again = ask_again_ns_ != 0 && now_ns >= ask_again_ns_;
  if (!at_gate || again) work_refused_ = false;
  auto ask = wire::Make<wire::AskTurn>(number_ + 1);
  ask.work = at_gate && !work_refused_ ? 1 : 0;
  Bytes bytes[wire::kMaxDevices];
  waits_.Read(number_ + 1, bytes);
  std::copy(std::begin(bytes), std::end(bytes), ask.bytes);
  if (ask.work == last_.work && memcmp(ask.bytes, last_.bytes, sizeof ask.bytes) == 0) return {};
  ++number_;
  last_ = ask;
  return ask;
}

bool TurnAsker::Refused(const wire::NoTurn& no, uint64_t now_ns) {
  if (last_.work != 0 && no.header.op_id >= last_.header.op_id) {
    work_refused_ = true;
    ask_again_ns_ = no.again_ms == 0 ? 0 : now_ns + uint64_t(no.again_ms) * 1'000'000;
  }
  return waits_.Refuse(no.header.op_id) != 0;
}

}  // namespace parkade::shim
