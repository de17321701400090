// What callers have defined, for the journal: groups, reservations and budgets, field by field.
#include "daemon/journal_record.h"
#include "daemon/packed.h"

namespace parkade::daemon {

std::string Pack(const Group& group) {
  Packer to;
  const Selector& s = group.selector;
  for (const std::string* text : {&group.owner, &group.name, &s.job, &s.role, &s.cell}) {
    to.Text(*text);
  }
  for (const std::vector<int32_t>* numbers : {&s.pids, &s.ranks}) {
    to.Number(numbers->size());
    for (const int32_t number : *numbers) to.Number(uint64_t(number));
  }
  to.Number(s.gpu_uuids.size());
  for (const std::string& uuid : s.gpu_uuids) to.Text(uuid);
  to.Number(s.all ? 1 : 0);
  to.Number(group.policies.all ? uint64_t(*group.policies.all) : UINT64_MAX);
  to.Number(group.policies.by_tag.size());
  for (const auto& [tag, policy] : group.policies.by_tag) {
    to.Text(tag);
    to.Number(uint64_t(policy));
  }
  return to.Take();
}

std::optional<Group> UnpackGroup(std::string_view bytes) {
  Unpacker from(bytes);
  Group out;
  Selector& s = out.selector;
  for (std::string* text : {&out.owner, &out.name, &s.job, &s.role, &s.cell}) *text = from.Text();
  for (std::vector<int32_t>* numbers : {&s.pids, &s.ranks}) {
    const uint64_t count = from.Number();
    for (uint64_t i = 0; i < count && from.ok(); ++i) numbers->push_back(int32_t(from.Number()));
  }
  const uint64_t gpus = from.Number();
  for (uint64_t i = 0; i < gpus && from.ok(); ++i) s.gpu_uuids.push_back(from.Text());
  s.all = from.Number() != 0;
  const auto is_policy = [](uint64_t number) {
    return number <= UINT32_MAX && wire::IsPolicy(uint32_t(number));
  };
  const uint64_t all = from.Number();
  if (all != UINT64_MAX && !is_policy(all)) return std::nullopt;
  if (all != UINT64_MAX) out.policies.all = wire::Policy(all);
  const uint64_t tags = from.Number();
  for (uint64_t i = 0; i < tags && from.ok(); ++i) {
    const std::string tag = from.Text();
    const uint64_t policy = from.Number();
    if (!is_policy(policy)) return std::nullopt;
    out.policies.by_tag[tag] = wire::Policy(policy);
  }
  if (!from.done() || !Check(out).ok()) return std::nullopt;
  return out;
}

std::string Pack(const Reservation& reservation) {
  Packer to;
  for (const std::string* text :
       {&reservation.id, &reservation.owner, &reservation.label, &reservation.gpu_uuid}) {
    to.Text(*text);
  }
  to.Number(reservation.bytes);
  to.Number(reservation.until_ns);
  to.Number(uint64_t(reservation.pid));
  to.Number(reservation.start_ticks);
  return to.Take();
}

std::optional<Reservation> UnpackReservation(std::string_view bytes) {
  Unpacker from(bytes);
  Reservation out;
  for (std::string* text : {&out.id, &out.owner, &out.label, &out.gpu_uuid}) *text = from.Text();
  out.bytes = from.Number();
  out.until_ns = from.Number();
  out.pid = int32_t(from.Number());
  out.start_ticks = from.Number();
  if (!from.done() || out.id.empty()) return std::nullopt;
  return out;
}

std::string Pack(const BudgetLimits& limits) {
  Packer to;
  to.Text(limits.job);
  to.Number(limits.host.has_value() ? 1 : 0);
  to.Number(limits.host.value_or(0));
  to.Number(limits.disk.has_value() ? 1 : 0);
  to.Number(limits.disk.value_or(0));
  return to.Take();
}

std::optional<BudgetLimits> UnpackBudget(std::string_view bytes) {
  Unpacker from(bytes);
  BudgetLimits out;
  out.job = from.Text();
  for (std::optional<Bytes>* limit : {&out.host, &out.disk}) {
    const bool has = from.Number() != 0;
    const Bytes value = from.Number();
    if (has) *limit = value;
  }
  if (!from.done()) return std::nullopt;
  return out;
}

}  // namespace parkade::daemon
