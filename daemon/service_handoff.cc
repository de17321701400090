// Translates handoffs and forecasts.
#include "daemon/printable.h"
#include "daemon/service_text.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

absl::Status BadRequest(std::string_view what) {
  return Fail(absl::StatusCode::kInvalidArgument, "BAD_REQUEST", what);
}

// What is said of both parts is said once.
template <typename Part>
absl::Status CheckPart(const Part& part, std::string_view name) {
  if (part.request_id().empty() && part.epoch() == 0 && !part.dry_run()) return absl::OkStatus();
  return BadRequest(
      Cat("request_id, epoch and dry_run of ", name, " belong to the handoff as a whole"));
}

}  // namespace

absl::StatusOr<HandoffOrder> Read(const v1::HandoffRequest& in, const Asker& asker) {
  if (auto s = CheckPart(in.outgoing(), "outgoing"); !s.ok()) return s;
  if (auto s = CheckPart(in.incoming(), "incoming"); !s.ok()) return s;
  if (in.incoming().has_wait_timeout()) {
    return BadRequest("a handoff waits for no free memory: incoming has a wait_timeout");
  }
  if (!in.incoming().tags().empty()) {
    return BadRequest("a handoff brings in all that is out: incoming has tags");
  }
  if (in.outgoing().deep()) {
    return BadRequest("a handoff takes nobody deep: pause them so when they are out");
  }
  HandoffOrder out;
  auto outgoing = Read(in.outgoing(), asker);
  if (!outgoing.ok()) return outgoing.status();
  auto incoming = Read(in.incoming(), asker);
  if (!incoming.ok()) return incoming.status();
  if (outgoing->gate.mode == wire::GateMode::kOpen) {
    return BadRequest("who goes out of a handoff stays at a closed gate");
  }
  if (in.overlap() < 0 || (in.overlap() != 0 && !IsOverlap(uint32_t(in.overlap())))) {
    return BadRequest(Cat("unknown overlap ", int(in.overlap())));
  }
  if (in.overlap() != 0) out.overlap = Overlap(in.overlap());
  out.outgoing = std::move(*outgoing);
  out.incoming = std::move(*incoming);
  out.outgoing.epoch = out.incoming.epoch = in.epoch();
  return out;
}

void Write(const Forecast& in, v1::Forecast* out) {
  for (const ProcessForecast& process : in.processes) {
    auto* to = out->add_processes();
    to->set_pid(process.pid);
    to->set_already(process.already);
    for (const TagShare& share : process.tags) {
      auto* tag = to->add_tags();
      tag->set_tag(Printable(share.tag));
      tag->set_policy(WritePolicy(share.policy));
      tag->set_host_bytes(share.host);
      tag->set_disk_bytes(share.disk);
      tag->set_discarded_bytes(share.discarded);
      tag->set_kept_bytes(share.kept);
    }
    for (const auto& [uuid, bytes] : process.needed) {
      auto* gpu = to->add_gpus();
      gpu->set_uuid(uuid);
      gpu->set_needed_bytes(bytes);
    }
    to->set_host_bytes(process.host);
    to->set_disk_bytes(process.disk);
    to->set_new_host_bytes(process.new_host);
  }
  for (const absl::Status& refusal : in.refusals) Write(refusal, out->add_refusals());
  out->set_seconds(in.seconds);
}

}  // namespace parkade::daemon
