// Requests become calls of the freezer, once they are seen to make sense.
#include <algorithm>

#include "common/text.h"
#include "shim/agent/bad_request.h"
#include "shim/agent/operations.h"
#include "shim/heap/saver_settings.h"

namespace parkade::shim {
namespace {

// Of a request that names tags, their number already checked.
template <typename Request>
std::vector<std::string> TagsOf(const Request& request) {
  std::vector<std::string> tags;
  for (uint32_t i = 0; i < request.tag_count; ++i) tags.emplace_back(ReadText(request.tags[i]));
  return tags;
}

}  // namespace

Freezer::Outcome Operations::Shift(const wire::Shift& shift, std::vector<wire::WrongBlock>* wrong) {
  if ((shift.to != uint32_t(wire::Place::kHost) && shift.to != uint32_t(wire::Place::kDisk)) ||
      shift.tag_count > wire::kMaxTags) {
    return {BadRequest("shift: place or tags out of range")};
  }
  const Freezer::Shifting what{wire::Place(shift.to), shift.host_bytes, TagsOf(shift)};
  return freezer_.Shift(shift.header.op_id, what, idle_stop_, wrong);
}

Freezer::Outcome Operations::Prepare(const wire::Prepare& prepare) {
  // A daemon that knows no choice leaves it at zero.
  const uint32_t exported =
      prepare.on_exported == 0 ? uint32_t(wire::OnExported::kBroker) : prepare.on_exported;
  if (!wire::IsOnExported(exported) || !wire::IsGateMode(prepare.gate_mode) ||
      !wire::IsGatedWork(prepare.gated_work) ||
      !wire::IsGatedAllocations(prepare.gated_allocations)) {
    return {BadRequest("prepare: gate out of range")};
  }
  if (const auto ran = RunHooksBefore(); !ran.ok()) return {ran};
  return freezer_.Prepare(
      Deadline::InNs(prepare.drain_timeout_ns),
      {prepare.epoch, wire::GateMode(prepare.gate_mode), wire::GatedWork(prepare.gated_work),
       wire::GatedAllocations(prepare.gated_allocations), wire::OnExported(exported)});
}

Freezer::Outcome Operations::LetThrough(const wire::LetThrough& let) {
  if (let.calls == 0 || let.calls > wire::kMostLetThrough) {
    return {BadRequest("let through: calls out of range")};
  }
  return freezer_.LetThrough(let.calls, Deadline::InNs(let.drain_timeout_ns),
                             Deadline::InNs(std::min(let.arrival_ns, let.drain_timeout_ns)));
}

Freezer::Outcome Operations::Resume(const wire::Resume& resume) {
  const bool parts = resume.tag_count != 0;
  if (resume.tag_count > wire::kMaxTags || (parts && !wire::IsGateMode(resume.gate_mode)) ||
      (parts && (resume.in_turn != 0 || resume.undoes_pause != 0))) {
    return {BadRequest("resume: tags or gate out of range")};
  }
  const uint64_t op_id = resume.header.op_id;
  if (resume.in_turn != 0) return freezer_.Arrive(op_id, resume.epoch);
  Freezer::Part part;
  part.undoes_pause = resume.undoes_pause != 0;
  part.retains = SaverSettings::retains();
  part.tags = TagsOf(resume);
  if (parts) part.mode = wire::GateMode(resume.gate_mode);
  return freezer_.Resume(op_id, resume.epoch, part);
}

}  // namespace parkade::shim
