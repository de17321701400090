// Field by field.
#include "daemon/journal_record.h"

#include <cstring>
#include <utility>

#include "absl/strings/cord.h"
#include "daemon/packed.h"
#include "daemon/status.h"

namespace parkade::daemon {
namespace {

void Put(Packer& to, const Identity& in) {
  to.Number(in.pid_namespace);
  to.Number(uint64_t(in.own_pid));
  to.Number(in.start_ticks);
  to.Text(in.boot_id);
  to.Number(uint64_t(in.pid));
  to.Number(in.uid);
  to.Number(in.gid);
  to.Number(in.visible ? 1 : 0);
}

Identity GetIdentity(Unpacker& from) {
  Identity out;
  out.pid_namespace = from.Number();
  out.own_pid = int32_t(from.Number());
  out.start_ticks = from.Number();
  out.boot_id = from.Text();
  out.pid = int32_t(from.Number());
  out.uid = uid_t(from.Number());
  out.gid = gid_t(from.Number());
  out.visible = from.Number() != 0;
  return out;
}

bool IsState(uint64_t number) {
  return number <= UINT32_MAX && wire::IsProcessState(uint32_t(number));
}

void Put(Packer& to, const Outcome& in) {
  to.Number(uint64_t(in.pid));
  to.Number(in.already ? 1 : 0);
  to.Number(uint64_t(in.state));
  to.Text({reinterpret_cast<const char*>(&in.stats), sizeof in.stats});
  to.Real(in.wait_seconds);
  to.Real(in.total_seconds);
  to.Number(in.residue_bytes);
  to.Number(in.gpus.size());
  for (const GpuChange& gpu : in.gpus) {
    to.Text(gpu.uuid);
    to.Number(gpu.free_before);
    to.Number(gpu.free_after);
    to.Number(gpu.expected);
  }
}

// Empty: it is none that this version has written.
std::optional<Outcome> GetOutcome(Unpacker& from) {
  Outcome out;
  out.pid = int(from.Number());
  out.already = from.Number() != 0;
  const uint64_t state = from.Number();
  const std::string stats = from.Text();
  if (!IsState(state) || stats.size() != sizeof out.stats) return std::nullopt;
  out.state = wire::ProcessState(state);
  memcpy(&out.stats, stats.data(), sizeof out.stats);
  out.wait_seconds = from.Real();
  out.total_seconds = from.Real();
  out.residue_bytes = from.Number();
  const uint64_t gpus = from.Number();
  for (uint64_t i = 0; i < gpus && from.ok(); ++i) {
    GpuChange& gpu = out.gpus.emplace_back();
    gpu.uuid = from.Text();
    gpu.free_before = from.Number();
    gpu.free_after = from.Number();
    gpu.expected = from.Number();
  }
  return out;
}

}  // namespace

std::string Pack(const RememberedProcess& process) {
  Packer to;
  Put(to, process.identity);
  const Introduction& in = process.introduction;
  for (const std::string* text : {&in.job, &in.role, &in.cell}) to.Text(*text);
  to.Number(in.rank ? uint64_t(*in.rank) : UINT64_MAX);
  to.Text(in.shim_version);
  to.Text(in.wanted_scratch_base);
  to.Number(in.scratch_base_yields ? 1 : 0);
  to.Number(uint64_t(in.default_policy));
  to.Number(uint64_t(process.state));
  return to.Take();
}

std::optional<RememberedProcess> UnpackProcess(std::string_view bytes) {
  Unpacker from(bytes);
  RememberedProcess out;
  out.identity = GetIdentity(from);
  Introduction& in = out.introduction;
  for (std::string* text : {&in.job, &in.role, &in.cell}) *text = from.Text();
  const uint64_t rank = from.Number();
  if (rank <= INT32_MAX) in.rank = int32_t(rank);
  in.shim_version = from.Text();
  in.wanted_scratch_base = from.Text();
  in.scratch_base_yields = from.Number() != 0;
  const uint64_t policy = from.Number();
  const uint64_t state = from.Number();
  const bool known = policy <= UINT32_MAX && wire::IsPolicy(uint32_t(policy)) && IsState(state);
  if (!from.done() || !known) return std::nullopt;
  in.default_policy = wire::Policy(policy);
  out.state = wire::ProcessState(state);
  return out;
}

std::string Pack(const BegunOperation& operation) {
  Packer to;
  to.Number(operation.number);
  to.Number(uint64_t(operation.kind));
  to.Number(operation.parties.size());
  for (const auto& party : operation.parties) {
    Put(to, party.identity);
    to.Number(party.was_out ? 1 : 0);
  }
  return to.Take();
}

std::optional<BegunOperation> UnpackOperation(std::string_view bytes) {
  Unpacker from(bytes);
  BegunOperation out;
  out.number = from.Number();
  out.kind = BegunOperation::Kind(from.Number());
  const uint64_t parties = from.Number();
  for (uint64_t i = 0; i < parties && from.ok(); ++i) {
    Identity identity = GetIdentity(from);
    out.parties.push_back({std::move(identity), from.Number() != 0});
  }
  using Kind = BegunOperation::Kind;
  const bool known = out.kind == Kind::kPause || out.kind == Kind::kResume;
  if (!from.done() || !known) return std::nullopt;
  return out;
}

std::string Pack(const GivenAnswer& answer) {
  Packer to;
  to.Text(answer.caller);
  to.Text(answer.request_id);
  to.Text(answer.body);
  const absl::Status& status = answer.answer.status();
  to.Number(uint64_t(status.code()));
  if (!answer.answer.ok()) {
    to.Text(MessageOf(status));
    const auto info = status.GetPayload(kErrorInfoUrl);
    to.Text(info ? std::string(*info) : "");
    return to.Take();
  }
  to.Number(answer.answer->size());
  for (const Outcome& outcome : *answer.answer) Put(to, outcome);
  return to.Take();
}

std::optional<GivenAnswer> UnpackAnswer(std::string_view bytes) {
  Unpacker from(bytes);
  std::string caller = from.Text();
  std::string id = from.Text();
  std::string body = from.Text();
  const uint64_t number = from.Number();
  if (number > uint64_t(absl::StatusCode::kUnauthenticated)) return std::nullopt;  // the last one
  if (const auto code = absl::StatusCode(number); code != absl::StatusCode::kOk) {
    const std::string message = from.Text();
    absl::Status status(code, message);
    status.SetPayload(kErrorInfoUrl, absl::Cord(from.Text()));
    if (!from.done()) return std::nullopt;
    return GivenAnswer{std::move(caller), std::move(id), std::move(body), std::move(status)};
  }
  Outcomes outcomes;
  const uint64_t count = from.Number();
  for (uint64_t i = 0; i < count && from.ok(); ++i) {
    auto outcome = GetOutcome(from);
    if (!outcome) return std::nullopt;
    outcomes.push_back(std::move(*outcome));
  }
  if (!from.done()) return std::nullopt;
  return GivenAnswer{std::move(caller), std::move(id), std::move(body), std::move(outcomes)};
}

}  // namespace parkade::daemon
