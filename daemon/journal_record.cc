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

bool IsKind(OperationKind kind) {
  return kind >= OperationKind::kPause && kind <= OperationKind::kWriteBehind;
}

bool IsState(uint64_t number) {
  return number <= UINT32_MAX && wire::IsProcessState(uint32_t(number));
}

void Put(Packer& to, const DeepMark& in) {
  to.Number(uint64_t(in.state));
  to.Number(in.bytes.size());
  for (const auto& [uuid, bytes] : in.bytes) {
    to.Text(uuid);
    to.Number(bytes);
  }
}

std::optional<DeepMark> GetDeepMark(Unpacker& from) {
  DeepMark out;
  const uint64_t state = from.Number();
  if (!IsDeepState(state)) return std::nullopt;
  out.state = DeepMark::State(state);
  const uint64_t gpus = from.Number();
  for (uint64_t i = 0; i < gpus && from.ok(); ++i) {
    std::string uuid = from.Text();
    out.bytes[std::move(uuid)] = from.Number();
  }
  return out;
}

// One that has failed; empty where it is none.
void Put(Packer& to, const absl::Status& in) {
  to.Number(uint64_t(in.code()));
  if (in.ok()) return;
  to.Text(MessageOf(in));
  const auto info = in.GetPayload(kErrorInfoUrl);
  to.Text(info ? std::string(*info) : "");
}

std::optional<absl::Status> GetStatus(Unpacker& from) {
  const uint64_t number = from.Number();
  if (number > uint64_t(absl::StatusCode::kUnauthenticated)) return std::nullopt;  // the last one
  const auto code = absl::StatusCode(number);
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  const std::string message = from.Text();
  absl::Status status(code, message);
  status.SetPayload(kErrorInfoUrl, absl::Cord(from.Text()));
  return status;
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
    to.Number(gpu.peak);
    to.Number(gpu.allowed);
  }
  to.Text(in.reservation);
  to.Text(in.write_behind);
  to.Number(in.wrong_blocks.size());
  for (const WrongBlock& block : in.wrong_blocks) {
    to.Number(block.address);
    to.Number(block.bytes);
    to.Number(uint64_t(block.device));
    to.Number(block.on_disk ? 1 : 0);
    to.Number(block.file);
    to.Number(block.offset);
    to.Number(block.missing ? 1 : 0);
  }
  to.Number(in.deep.concerns ? 1 : 0);
  to.Number(in.deep.deep ? 1 : 0);
  to.Number(in.deep.bytes);
  to.Real(in.deep.seconds);
  Put(to, in.deep.refusal);
}

void Put(Packer& to, const Outcomes& outcomes) {
  to.Number(outcomes.size());
  for (const Outcome& outcome : outcomes) Put(to, outcome);
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
    gpu.peak = from.Number();
    gpu.allowed = from.Number();
  }
  out.reservation = from.Text();
  out.write_behind = from.Text();
  const uint64_t blocks = from.Number();
  for (uint64_t i = 0; i < blocks && from.ok(); ++i) {
    WrongBlock& block = out.wrong_blocks.emplace_back();
    block.address = from.Number();
    block.bytes = from.Number();
    block.device = int(from.Number());
    block.on_disk = from.Number() != 0;
    block.file = uint32_t(from.Number());
    block.offset = from.Number();
    block.missing = from.Number() != 0;
  }
  out.deep.concerns = from.Number() != 0;
  out.deep.deep = from.Number() != 0;
  out.deep.bytes = from.Number();
  out.deep.seconds = from.Real();
  auto refusal = GetStatus(from);
  if (!refusal) return std::nullopt;
  out.deep.refusal = std::move(*refusal);
  return out;
}

std::optional<Outcomes> GetOutcomes(Unpacker& from) {
  Outcomes out;
  const uint64_t count = from.Number();
  for (uint64_t i = 0; i < count && from.ok(); ++i) {
    auto outcome = GetOutcome(from);
    if (!outcome) return std::nullopt;
    out.push_back(std::move(*outcome));
  }
  return out;
}

}  // namespace

const char* NameOf(OperationKind kind) {
  switch (kind) {
    case OperationKind::kPause:
      return "pause";
    case OperationKind::kResume:
      return "resume";
    case OperationKind::kHandoff:
      return "handoff";
    case OperationKind::kReserve:
      return "reserve";
    case OperationKind::kVerify:
      return "verify";
    case OperationKind::kPrefetch:
      return "prefetch";
    case OperationKind::kWriteBehind:
      return "write-behind";
  }
  return "";
}

std::string Pack(const RememberedProcess& process) {
  Packer to;
  Put(to, process.identity);
  const Introduction& in = process.introduction;
  for (const std::string* text : {&in.job, &in.role, &in.cell}) to.Text(*text);
  to.Number(in.rank ? uint64_t(*in.rank) : UINT64_MAX);
  to.Text(in.shim_version);
  to.Text(in.wanted_scratch_base);
  to.Number(in.scratch_base_yields ? 1 : 0);
  to.Number(in.takes_turns ? 1 : 0);
  to.Number(uint64_t(in.default_policy));
  to.Number(uint64_t(process.state));
  to.Number(process.for_turn ? 1 : 0);
  Put(to, process.deep);
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
  in.takes_turns = from.Number() != 0;
  const uint64_t policy = from.Number();
  const uint64_t state = from.Number();
  out.for_turn = from.Number() != 0;
  auto deep = GetDeepMark(from);
  const bool known =
      deep && policy <= UINT32_MAX && wire::IsPolicy(uint32_t(policy)) && IsState(state);
  if (!from.done() || !known) return std::nullopt;
  in.default_policy = wire::Policy(policy);
  out.state = wire::ProcessState(state);
  out.deep = std::move(*deep);
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
  for (const std::string* text :
       {&operation.origin.id, &operation.origin.caller, &operation.origin.request_id}) {
    to.Text(*text);
  }
  to.Number(operation.origin.begun_ns);
  to.Number(operation.parts.tags.size());
  for (const std::string& tag : operation.parts.tags) to.Text(tag);
  to.Number(uint64_t(operation.parts.gate));
  return to.Take();
}

std::optional<BegunOperation> UnpackOperation(std::string_view bytes) {
  Unpacker from(bytes);
  BegunOperation out;
  out.number = from.Number();
  out.kind = OperationKind(from.Number());
  const uint64_t parties = from.Number();
  for (uint64_t i = 0; i < parties && from.ok(); ++i) {
    Identity identity = GetIdentity(from);
    out.parties.push_back({std::move(identity), from.Number() != 0});
  }
  for (std::string* text : {&out.origin.id, &out.origin.caller, &out.origin.request_id}) {
    *text = from.Text();
  }
  out.origin.begun_ns = from.Number();
  const uint64_t tags = from.Number();
  for (uint64_t i = 0; i < tags && from.ok(); ++i) out.parts.tags.push_back(from.Text());
  const uint64_t gate = from.Number();
  const bool known = IsKind(out.kind) && gate <= UINT32_MAX && wire::IsGateMode(uint32_t(gate));
  if (!from.done() || !known || tags > wire::kMaxTags) return std::nullopt;
  out.parts.gate = wire::GateMode(gate);
  return out;
}

std::string Pack(const GivenAnswer& answer) {
  Packer to;
  to.Text(answer.caller);
  to.Text(answer.request_id);
  to.Text(answer.body);
  Put(to, answer.answer.status());
  if (answer.answer.ok()) Put(to, *answer.answer);
  to.Text(answer.operation);
  to.Number(uint64_t(answer.kind));
  to.Number(answer.pids.size());
  for (const int pid : answer.pids) to.Number(uint64_t(pid));
  to.Number(answer.begun_ns);
  to.Number(answer.ended_ns);
  Put(to, answer.report);
  return to.Take();
}

std::optional<GivenAnswer> UnpackAnswer(std::string_view bytes) {
  Unpacker from(bytes);
  GivenAnswer out{from.Text(), from.Text(), from.Text(), Outcomes{}, {}};
  auto status = GetStatus(from);
  if (!status) return std::nullopt;
  if (!status->ok()) {
    out.answer = std::move(*status);
  } else {
    auto outcomes = GetOutcomes(from);
    if (!outcomes) return std::nullopt;
    out.answer = std::move(*outcomes);
  }
  out.operation = from.Text();
  out.kind = OperationKind(from.Number());
  const uint64_t pids = from.Number();
  for (uint64_t i = 0; i < pids && from.ok(); ++i) out.pids.push_back(int(from.Number()));
  out.begun_ns = from.Number();
  out.ended_ns = from.Number();
  auto report = GetOutcomes(from);
  if (!report || !from.done() || !IsKind(out.kind)) return std::nullopt;
  out.report = std::move(*report);
  return out;
}

}  // namespace parkade::daemon
