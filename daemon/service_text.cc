// Field by field.
#include "daemon/service_text.h"

#include <time.h>

#include <algorithm>

#include "common/text.h"
#include "daemon/foreign_text.h"
#include "daemon/printable.h"
#include "daemon/status.h"
#include "daemon/tags.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

absl::Status BadPolicy(std::string_view what) {
  return Fail(absl::StatusCode::kInvalidArgument, "BAD_POLICY", what);
}

// The states and the ways of a gate have the same numbers on both sides, which service_text_test
// holds.
v1::ProcessState WriteState(wire::ProcessState state) { return v1::ProcessState(state); }

// Keeps the default where the request says nothing.
template <typename Ours>
absl::Status ReadChoice(int value, bool (*known)(uint32_t), std::string_view name, Ours* choice) {
  if (value == 0) return absl::OkStatus();
  if (value < 0 || !known(uint32_t(value))) return BadPolicy(Cat("unknown ", name, " ", value));
  *choice = Ours(value);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReadNamed(
    const google::protobuf::RepeatedPtrField<std::string>& in) {
  auto tags = ReadTags({in.begin(), in.end()});
  if (!tags.empty() || in.empty()) return tags;
  return Fail(absl::StatusCode::kInvalidArgument, "UNKNOWN_TAG", "the list of tags names none");
}

// After the policies.
absl::Status ReadWriteBehind(const v1::PauseRequest& in, PauseOrder& out) {
  out.policies.write_behind = in.write_behind();
  out.release_host = in.release_host();
  if (in.release_host() && !in.write_behind()) {
    return BadPolicy("release_host of a pause is about the host memory that write_behind leaves");
  }
  if (!in.write_behind()) return absl::OkStatus();
  if (out.policies.all == wire::Policy::kHost) {
    return BadPolicy("with write_behind bytes end on disk: policy host keeps them in host memory");
  }
  if (!out.policies.all) out.policies.all = wire::Policy::kDisk;
  return absl::OkStatus();
}

const char* PlaceName(wire::Place place) {
  switch (place) {
    case wire::Place::kGpu:
      return "gpu";
    case wire::Place::kHost:
      return "host";
    case wire::Place::kDisk:
      return "disk";
    case wire::Place::kDiscarded:
      return "discarded";
    case wire::Place::kMoving:
      return "moving";
  }
  return "";
}

const char* ClassName(wire::AllocationClass allocation_class) {
  switch (allocation_class) {
    case wire::AllocationClass::kPausable:
      return "pausable";
    case wire::AllocationClass::kHeld:
      return "held";
    case wire::AllocationClass::kForeign:
      return "foreign";
  }
  return "";
}

// "SECONDS sentence" with a date for the number; what has none is left as it is.
std::string Dated(std::string_view event) {
  const size_t end = std::min(event.find(' '), event.size());
  const auto seconds = ReadNumber<int64_t>(event.substr(0, end));
  const time_t at = seconds.value_or(0);
  tm utc{};
  char date[32];
  if (!seconds || gmtime_r(&at, &utc) == nullptr ||
      strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0) {
    return std::string(event);
  }
  return Cat(date, event.substr(end));
}

}  // namespace

absl::StatusOr<uint64_t> ReadNs(const google::protobuf::Duration& in, std::string_view name) {
  // As good as for ever, and far from where nanoseconds overflow.
  constexpr int64_t kYear = 365 * 24 * 3600;
  if (in.seconds() < 0 || in.nanos() < 0 || in.seconds() >= kYear) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_SIZE",
                Cat(name, " must not be negative, and less than a year"));
  }
  return uint64_t(in.seconds()) * 1'000'000'000 + uint64_t(in.nanos());
}

absl::StatusOr<PauseOrder> Read(const v1::PauseRequest& in, const Asker& asker) {
  PauseOrder out;
  auto selector = Read(in.selector(), asker);
  if (!selector.ok()) return selector.status();
  out.selector = std::move(*selector);
  auto policies = ReadPolicies(in.policy(), in.tag_policies());
  if (!policies.ok()) return policies.status();
  out.policies = std::move(*policies);
  if (auto s = AddGroups(in.selector(), asker, out.policies); !s.ok()) return s;
  if (auto s = ReadWriteBehind(in, out); !s.ok()) return s;
  auto tags = ReadNamed(in.tags());
  if (!tags.ok()) return tags.status();
  out.policies.only = std::move(*tags);
  out.allow_empty = out.policies.allow_unknown = in.allow_empty();
  for (const absl::Status& s :
       {ReadChoice(in.gate_mode(), wire::IsGateMode, "gate mode", &out.gate.mode),
        ReadChoice(in.gated_work(), wire::IsGatedWork, "way of gated work", &out.gate.work),
        ReadChoice(in.gated_allocations(), wire::IsGatedAllocations, "way of gated allocations",
                   &out.gate.allocations),
        ReadChoice(in.on_exported(), wire::IsOnExported, "way with exported memory",
                   &out.gate.exported)}) {
    if (!s.ok()) return s;
  }
  if (in.has_drain_timeout()) {
    const auto timeout = ReadNs(in.drain_timeout(), "drain_timeout");
    if (!timeout.ok()) return timeout.status();
    out.gate.drain_timeout_ns = *timeout;
  }
  wire::Elision elision{};
  if (auto s = ReadChoice(in.elision(), wire::IsElision, "elision", &elision); !s.ok()) return s;
  if (in.elision() != 0) out.elision = elision;
  out.scratch_base = in.scratch_base();
  if (in.chunk_bytes() != 0) out.chunk_bytes = in.chunk_bytes();
  out.deep = in.deep();
  out.epoch = in.epoch();
  return out;
}

absl::StatusOr<VerifyOrder> Read(const v1::VerifyRequest& in, const Asker& asker) {
  auto selector = Read(in.selector(), asker);
  if (!selector.ok()) return selector.status();
  return VerifyOrder{std::move(*selector), in.allow_empty()};
}

absl::StatusOr<PrefetchOrder> Read(const v1::PrefetchRequest& in, const Asker& asker) {
  auto selector = Read(in.selector(), asker);
  if (!selector.ok()) return selector.status();
  auto tags = ReadNamed(in.tags());
  if (!tags.ok()) return tags.status();
  return PrefetchOrder{std::move(*selector), in.allow_empty(), std::move(*tags)};
}

absl::StatusOr<ResumeOrder> Read(const v1::ResumeRequest& in, const Asker& asker) {
  const auto timeout = ReadNs(in.wait_timeout(), "wait_timeout");
  if (!timeout.ok()) return timeout.status();
  auto selector = Read(in.selector(), asker);
  if (!selector.ok()) return selector.status();
  ResumeOrder out{std::move(*selector), in.release_host(), in.epoch(), *timeout, in.allow_empty()};
  auto tags = ReadNamed(in.tags());
  if (!tags.ok()) return tags.status();
  out.tags = std::move(*tags);
  if (in.gate_mode() != 0 && out.tags.empty()) {
    return BadPolicy("gate_mode is about what stays out: a resume of everything opens the gate");
  }
  if (auto s = ReadChoice(in.gate_mode(), wire::IsGateMode, "gate mode", &out.gate); !s.ok()) {
    return s;
  }
  out.priority = ReadPriority(in.priority());
  return out;
}

void Write(const ProcessView& in, v1::Process* out) {
  out->set_pid(in.identity.pid);
  out->set_start_ticks(in.identity.start_ticks);
  out->set_uid(in.identity.uid);
  out->set_command(in.command);
  out->set_job(in.introduction.job);
  out->set_role(in.introduction.role);
  out->set_cell(in.introduction.cell);
  if (in.introduction.rank) out->set_rank(*in.introduction.rank);
  out->set_state(WriteState(in.state));
  out->set_connected(in.connected);
  out->set_deep(in.deep.state == DeepMark::State::kDeep);
  out->set_takes_turns(in.introduction.takes_turns);
  out->set_asks_turn(in.asks_turn);
  out->set_out_for_turn(in.OutForTurn());
  out->set_scratch_dir(Printable(in.scratch_dir));
  out->set_shim_version(in.introduction.shim_version);
  if (!in.ledger) return;
  const wire::LedgerHeader& h = *in.ledger;
  for (size_t i = 0; i < wire::kMaxDevices; ++i) {
    if (h.devices[i].used == 0) continue;
    auto* device = out->add_devices();
    device->set_gpu_uuid(GpuUuid(h.devices[i].uuid));
    device->set_ordinal(int32_t(i));
    device->set_resident_bytes(h.devices[i].resident_bytes);
    device->set_requested_bytes(h.devices[i].requested_bytes);
    device->set_foreign_bytes(h.devices[i].foreign_bytes);
    WriteForeign(h.foreign[i], device);
  }
  out->set_host_backup_bytes(h.host_backup_bytes);
  out->set_disk_backup_bytes(h.disk_backup_bytes);
  out->set_host_pool_bytes(h.host_pool_bytes);
  out->set_host_retained_bytes(h.host_retained_bytes);
  out->set_disk_retained_bytes(h.disk_retained_bytes);
  out->set_pinned_bytes(h.pinned_bytes);
  out->set_allocation_count(h.allocations - std::min(h.frees, h.allocations));
  out->set_gated_threads(h.gated_threads);
  out->set_unhooked_names(h.unhooked_names);
  // A shim's word: what is no mode is not shown.
  if (h.gate_mode <= UINT32_MAX && wire::IsGateMode(uint32_t(h.gate_mode))) {
    out->set_gate_mode(v1::GateMode(h.gate_mode));
  }
  out->set_epoch(h.epoch);
  const bool moves = in.state == wire::ProcessState::kEvicting ||
                     in.state == wire::ProcessState::kRestoring || IsOut(in.state);
  // Without a transition of its own the ledger still has the figures of the last one.
  if (!moves || h.op_id == 0) return;
  auto* progress = out->mutable_progress();
  progress->set_done_bytes(h.moved_bytes);
  progress->set_total_bytes(h.to_move_bytes);
}

void WriteDetails(const wire::LedgerView& in, v1::GetProcessResponse* out) {
  for (std::string_view line : Split(ReadText(in.header.text), "\n")) {
    constexpr std::string_view kWarning = "warning: ";
    constexpr std::string_view kEvent = "event: ";
    if (line.starts_with(kWarning)) {
      out->mutable_process()->add_warnings(Printable(line.substr(kWarning.size())));
    } else if (line.starts_with(kEvent)) {
      out->mutable_process()->add_events(Printable(Dated(line.substr(kEvent.size()))));
    } else {
      out->mutable_process()->add_settings(Printable(line));
    }
  }
  for (const wire::LedgerRecord& r : in.records) {
    auto* allocation = out->add_allocations();
    allocation->set_address(r.base);
    allocation->set_bytes(r.bytes);
    allocation->set_device(r.device);
    allocation->set_tag(Printable(ReadText(r.tag)));
    allocation->set_allocation_class(ClassName(wire::AllocationClass(r.allocation_class)));
    allocation->set_place(PlaceName(wire::Place(r.place)));
  }
}

void Write(const GpuView& in, v1::Gpu* out) {
  out->set_uuid(in.uuid);
  out->set_name(in.name);
  out->set_total_bytes(in.total);
  out->set_free_bytes(in.free);
  for (const auto& [pid, bytes] : in.users) {
    auto* user = out->add_users();
    user->set_pid(pid);
    user->set_used_bytes(bytes);
  }
}

void Write(const BaseReport& in, Bytes used, const DiskRates& rates, v1::ScratchBase* out) {
  out->set_path(Printable(in.path));
  out->set_usable(in.usable.ok());
  out->set_reason(Printable(MessageOf(in.usable)));
  out->set_free_bytes(in.free_bytes);
  out->set_used_bytes(used);
  out->set_request_bytes(rates.setting.block);
  out->set_depth(rates.setting.depth);
  out->set_registered_memory(rates.setting.registers_memory);
  out->set_write_gbps(rates.write_gbps);
  out->set_read_gbps(rates.read_gbps);
  out->set_stripe(in.stripe);
}

void Write(const SweptDirectory& in, v1::ScratchEntry* out) {
  out->set_path(Printable(in.path));
  out->set_pid(in.pid);
  out->set_uid(in.uid);
  out->set_bytes(in.bytes);
  out->set_dead(in.dead);
  out->set_reason(in.reason);
}

void Write(const Outcome& in, v1::TransitionResult* out) {
  const auto seconds = [](uint64_t ns) { return double(ns) / 1e9; };
  out->set_pid(in.pid);
  out->set_already(in.already);
  out->set_state(WriteState(in.state));
  out->set_host_bytes(in.stats.host_bytes);
  out->set_disk_bytes(in.stats.disk_bytes);
  out->set_discarded_bytes(in.stats.discarded_bytes);
  out->set_elided_bytes(in.stats.elided_bytes);
  out->set_kept_bytes(in.stats.kept_bytes);
  out->set_released_bytes(in.stats.released_bytes);
  out->set_gate_seconds(seconds(in.stats.gate_ns));
  out->set_drain_seconds(seconds(in.stats.drain_ns));
  out->set_move_seconds(seconds(in.stats.move_ns));
  out->set_total_seconds(in.total_seconds);
  out->set_residue_bytes(in.residue_bytes);
  out->set_let_through(in.stats.let_through);
  out->set_wait_seconds(in.wait_seconds);
  for (const GpuChange& gpu : in.gpus) {
    auto* change = out->add_gpus();
    change->set_uuid(gpu.uuid);
    change->set_free_before_bytes(gpu.free_before);
    change->set_free_after_bytes(gpu.free_after);
    change->set_expected_bytes(gpu.expected);
    change->set_peak_bytes(gpu.peak);
    change->set_allowed_bytes(gpu.allowed);
  }
  out->set_left_bytes(in.stats.left_bytes);
  out->set_write_behind_id(in.write_behind);
  out->set_wrong_block_count(in.stats.wrong_blocks);
  for (const WrongBlock& block : in.wrong_blocks) {
    auto* wrong = out->add_wrong_blocks();
    wrong->set_address(block.address);
    wrong->set_bytes(block.bytes);
    wrong->set_device(block.device);
    wrong->set_place(PlaceName(block.on_disk ? wire::Place::kDisk : wire::Place::kHost));
    wrong->set_file(block.file);
    wrong->set_offset(block.offset);
    wrong->set_missing(block.missing);
  }
  if (!in.deep.concerns) return;
  auto* deep = out->mutable_deep();
  deep->set_deep(in.deep.deep);
  deep->set_freed_bytes(in.deep.bytes);
  deep->set_seconds(in.deep.seconds);
  if (!in.deep.refusal.ok()) Write(in.deep.refusal, deep->mutable_refusal());
}

void Write(const Event& in, v1::Event* out) {
  WriteTime(in.time_ns, out->mutable_time());
  switch (in.kind) {
    case Event::Kind::kPresent:
      out->set_kind(v1::Event::KIND_PRESENT);
      break;
    case Event::Kind::kAppeared:
      out->set_kind(v1::Event::KIND_APPEARED);
      break;
    case Event::Kind::kState:
      out->set_kind(v1::Event::KIND_STATE);
      break;
    case Event::Kind::kProgress:
      out->set_kind(v1::Event::KIND_PROGRESS);
      break;
    case Event::Kind::kGone:
      out->set_kind(v1::Event::KIND_GONE);
      break;
  }
  Write(in.process, out->mutable_process());
}

}  // namespace parkade::daemon
