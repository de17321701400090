// The API's messages and the daemon's own types.
#include "daemon/service_text.h"

#include <catch2/catch.hpp>

#include "common/text.h"
#include "daemon/status.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

// As from a caller without groups.
template <typename Message>
auto Parse(const Message& in) {
  const Groups groups({});
  const Caller caller;
  return Read(in, {caller, groups});
}

}  // namespace

TEST_CASE("states and policies mean the same on both sides") {
  const std::pair<wire::ProcessState, v1::ProcessState> states[] = {
      {wire::ProcessState::kRunning, v1::PROCESS_STATE_RUNNING},
      {wire::ProcessState::kPreparing, v1::PROCESS_STATE_PREPARING},
      {wire::ProcessState::kPrepared, v1::PROCESS_STATE_PREPARED},
      {wire::ProcessState::kEvicting, v1::PROCESS_STATE_EVICTING},
      {wire::ProcessState::kPaused, v1::PROCESS_STATE_PAUSED},
      {wire::ProcessState::kRestoring, v1::PROCESS_STATE_RESTORING},
      {wire::ProcessState::kPartlyMoved, v1::PROCESS_STATE_PARTLY_MOVED},
      {wire::ProcessState::kFailed, v1::PROCESS_STATE_FAILED}};
  for (const auto& [ours, theirs] : states) {
    ProcessView view;
    view.state = ours;
    v1::Process out;
    Write(view, &out);
    CHECK(out.state() == theirs);
  }
  const std::pair<v1::Policy, wire::Policy> policies[] = {
      {v1::POLICY_HOST, wire::Policy::kHost},
      {v1::POLICY_DISK, wire::Policy::kDisk},
      {v1::POLICY_AUTO, wire::Policy::kAuto},
      {v1::POLICY_DISCARD, wire::Policy::kDiscard},
      {v1::POLICY_KEEP, wire::Policy::kKeep}};
  for (const auto& [theirs, ours] : policies) {
    v1::PauseRequest in;
    in.set_policy(theirs);
    (*in.mutable_tag_policies())["t"] = theirs;
    const auto order = Parse(in);
    REQUIRE(order.ok());
    CHECK(order->policies.all == ours);
    CHECK(order->policies.by_tag.at("t") == ours);
  }
}

TEST_CASE("an empty request is an order with the defaults") {
  const auto order = Parse(v1::PauseRequest());
  REQUIRE(order.ok());
  CHECK_FALSE(order->policies.all.has_value());
  CHECK(order->gate.drain_timeout_ns == 30'000'000'000);
  CHECK(order->chunk_bytes == 256_MiB);
  CHECK(order->selector.empty());
}

TEST_CASE("what a request says of gates, epochs and waiting arrives") {
  v1::PauseRequest pause;
  pause.set_gate_mode(v1::GATE_MODE_OPEN);
  pause.set_gated_work(v1::GATED_WORK_FAIL);
  pause.set_gated_allocations(v1::GATED_ALLOCATIONS_PASS);
  pause.set_on_exported(v1::ON_EXPORTED_KEEP);
  pause.set_elision(v1::ELISION_OFF);
  pause.set_epoch(UINT64_MAX);
  const auto order = Parse(pause);
  REQUIRE(order.ok());
  CHECK(order->gate.mode == wire::GateMode::kOpen);
  CHECK(order->gate.work == wire::GatedWork::kFail);
  CHECK(order->gate.allocations == wire::GatedAllocations::kPass);
  CHECK(order->gate.exported == wire::OnExported::kKeep);
  CHECK(order->elision == wire::Elision::kOff);
  CHECK_FALSE(Parse(v1::PauseRequest())->elision);
  CHECK(order->epoch == UINT64_MAX);
  v1::ResumeRequest resume;
  resume.set_epoch(3);
  resume.mutable_wait_timeout()->set_seconds(2);
  const auto back = Parse(resume);
  REQUIRE(back.ok());
  CHECK(back->epoch == 3);
  CHECK(back->wait_timeout_ns == 2'000'000'000);
  CHECK(Parse(v1::ResumeRequest())->wait_timeout_ns == 0);
}

TEST_CASE("no request goes before what an earlier daemon has interrupted") {
  for (const int32_t priority : {INT32_MAX, INT32_MAX - 1}) {
    v1::ResumeRequest resume;
    resume.set_priority(priority);
    CHECK(Parse(resume)->priority == INT32_MAX - 1);
    v1::ReserveRequest reserve;
    reserve.set_bytes(1);
    reserve.set_priority(priority);
    CHECK(Read(reserve)->priority == INT32_MAX - 1);
  }
}

TEST_CASE("a reserve that is done has no result of a process") {
  OperationView view;
  Outcome kept;
  kept.reservation = "id";
  view.answer = Outcomes{kept};
  for (const auto kind : {OperationKind::kReserve, OperationKind::kResume}) {
    view.kind = kind;
    v1::Operation out;
    Write(view, &out);
    CHECK(out.state() == v1::Operation::STATE_DONE);
    CHECK(out.results_size() == (kind == OperationKind::kReserve ? 0 : 1));
  }
}

TEST_CASE("the tags of a resume keep their order, and its gate is open unless it says otherwise") {
  v1::ResumeRequest in;
  CHECK(Parse(in)->tags.empty());
  in.set_gate_mode(v1::GATE_MODE_CLOSED);
  CHECK(ReasonOf(Parse(in).status()) == "BAD_POLICY");  // of nothing that stays out
  in.add_tags("weight, kv_cache");
  in.add_tags("kv_cache\toptimizer");
  CHECK(Parse(in)->tags == std::vector<std::string>{"weights", "kv_cache", "optimizer"});
  CHECK(Parse(in)->gate == wire::GateMode::kClosed);
  in.clear_gate_mode();
  CHECK(Parse(in)->gate == wire::GateMode::kOpen);
  in.set_gate_mode(v1::GateMode(9));
  CHECK(ReasonOf(Parse(in).status()) == "BAD_POLICY");
  in.clear_gate_mode();
  in.clear_tags();
  in.add_tags(" , ");
  CHECK(ReasonOf(Parse(in).status()) == "UNKNOWN_TAG");
  in.set_tags(0, std::string(32, 'x'));
  CHECK(ReasonOf(Check(*Parse(in))) == "UNKNOWN_TAG");
  std::string many;
  for (size_t i = 0; i <= wire::kMaxTags; ++i) many += "t" + std::to_string(i) + " ";
  in.set_tags(0, many);
  CHECK(ReasonOf(Check(*Parse(in))) == "BAD_POLICY");

  v1::HandoffRequest handoff;
  handoff.mutable_incoming()->add_tags("weights");
  CHECK(ReasonOf(Parse(handoff).status()) == "BAD_REQUEST");
}

TEST_CASE("a process shows the mode of its gate and its epoch, and no mode that cannot be") {
  ProcessView view;
  view.ledger.emplace();
  view.ledger->epoch = 9;
  view.ledger->gate_mode = uint64_t(wire::GateMode::kOpen);
  v1::Process out;
  Write(view, &out);
  CHECK(out.epoch() == 9);
  CHECK(out.gate_mode() == v1::GATE_MODE_OPEN);
  view.ledger->gate_mode = uint64_t(1) << 32 | 1;
  out.Clear();
  Write(view, &out);
  CHECK(out.gate_mode() == v1::GATE_MODE_UNSPECIFIED);
}

TEST_CASE("what has no counterpart is refused") {
  v1::PauseRequest in;
  in.set_policy(v1::Policy(77));
  CHECK(ReasonOf(Parse(in).status()) == "BAD_POLICY");
  in.Clear();
  (*in.mutable_tag_policies())["t"] = v1::POLICY_UNSPECIFIED;
  CHECK(ReasonOf(Parse(in).status()) == "BAD_POLICY");
  in.Clear();
  in.set_gate_mode(v1::GateMode(9));
  CHECK(ReasonOf(Parse(in).status()) == "BAD_POLICY");
  in.Clear();
  in.set_gated_work(v1::GatedWork(-1));
  CHECK(ReasonOf(Parse(in).status()) == "BAD_POLICY");
  in.Clear();
  in.set_gated_allocations(v1::GatedAllocations(3));
  CHECK(ReasonOf(Parse(in).status()) == "BAD_POLICY");
  in.Clear();
  in.set_elision(v1::Elision(4));
  CHECK(ReasonOf(Parse(in).status()) == "BAD_POLICY");
  v1::ResumeRequest resume;
  resume.mutable_wait_timeout()->set_seconds(-1);
  CHECK(ReasonOf(Parse(resume).status()) == "BAD_SIZE");
  in.Clear();
  in.mutable_drain_timeout()->set_nanos(-1);
  CHECK(ReasonOf(Parse(in).status()) == "BAD_SIZE");
  in.mutable_drain_timeout()->set_seconds(int64_t(1) << 40);
  CHECK(ReasonOf(Parse(in).status()) == "BAD_SIZE");
  in.mutable_drain_timeout()->set_seconds(0);
  in.mutable_drain_timeout()->set_nanos(0);
  REQUIRE(Parse(in).ok());
  CHECK(ReasonOf(Check(*Parse(in))) == "BAD_SIZE");
}

TEST_CASE("orders out of range are refused") {
  PauseOrder order;
  CHECK(Check(order).ok());
  for (const Bytes chunk : {16_MiB - 1, 4_GiB + 1, 16_MiB + 4096}) {
    order.chunk_bytes = chunk;
    CHECK(ReasonOf(Check(order)) == "BAD_SIZE");
  }
  order.chunk_bytes = 16_MiB;
  CHECK(Check(order).ok());
  order.scratch_base = "nowhere";
  CHECK(ReasonOf(Check(order)) == "BAD_SCRATCH");
}

TEST_CASE("a ledger's text becomes settings and warnings, and no text is trusted") {
  wire::LedgerView ledger{};
  CopyText(ledger.header.text, "a=1 (default)\nwarning: tmpfs\nb=\x1b[31m (x)");
  wire::LedgerRecord record{};
  record.allocation_class = uint32_t(wire::AllocationClass::kHeld);
  record.place = uint32_t(wire::Place::kDiscarded);
  CopyText(record.tag, "\xff");
  ledger.records.push_back(record);
  v1::GetProcessResponse out;
  WriteDetails(ledger, &out);
  REQUIRE(out.process().settings_size() == 2);
  CHECK(out.process().settings(1) == "b=?[31m (x)");
  CHECK(out.process().warnings(0) == "tmpfs");
  CHECK(out.allocations(0).tag() == "?");
  CHECK(out.allocations(0).allocation_class() == "held");
  CHECK(out.allocations(0).place() == "discarded");
}

TEST_CASE("a selector matches what all its fields match") {
  ProcessView view{};
  view.identity.pid = 5;
  view.introduction.job = "a";
  view.introduction.rank = 0;
  view.ledger.emplace();
  view.ledger->devices[3].used = 1;
  view.ledger->devices[3].uuid[0] = 0xab;
  v1::Selector in;
  CHECK(Matches(*Parse(in), view));
  in.add_pids(4);
  CHECK_FALSE(Matches(*Parse(in), view));
  in.add_pids(5);
  CHECK(Matches(*Parse(in), view));
  in.set_job("b");
  CHECK_FALSE(Matches(*Parse(in), view));
  in.set_job("a");
  in.add_ranks(0);
  in.add_gpu_uuids("GPU-ab000000-0000-0000-0000-000000000000");
  CHECK(Matches(*Parse(in), view));
  view.introduction.rank.reset();
  CHECK_FALSE(Matches(*Parse(in), view));
  in.clear_ranks();
  in.set_role("actor");
  CHECK_FALSE(Matches(*Parse(in), view));
}

TEST_CASE("tags are listed in any way, once each, and weight means weights") {
  v1::PauseRequest in;
  in.add_tags("kv_cache, weight");
  in.add_tags(" weights\tkv_cache,,cuda_graph ");
  (*in.mutable_tag_policies())["weight"] = v1::POLICY_DISK;
  const auto order = Parse(in);
  REQUIRE(order.ok());
  CHECK(order->policies.only == std::vector<std::string>{"kv_cache", "weights", "cuda_graph"});
  CHECK(order->policies.by_tag.at("weights") == wire::Policy::kDisk);
  (*in.mutable_tag_policies())["weights"] = v1::POLICY_HOST;
  CHECK(ReasonOf(Parse(in).status()) == "BAD_POLICY");
  v1::PauseRequest none;
  none.add_tags(" , ");
  CHECK(ReasonOf(Parse(none).status()) == "UNKNOWN_TAG");
}

TEST_CASE("a group gives its processes, and of its policies what the request leaves open") {
  Group rollout{"rollout", {}, {wire::Policy::kDisk, {{"kv_cache", wire::Policy::kDiscard}}}};
  rollout.selector.role = "rollout";
  const Groups groups({rollout});
  const Caller caller;
  v1::PauseRequest in;
  in.mutable_selector()->set_group("rollout");
  in.mutable_selector()->add_ranks(1);
  const auto order = Read(in, {caller, groups});
  REQUIRE(order.ok());
  CHECK(order->policies.all == wire::Policy::kDisk);
  CHECK(order->policies.by_tag.at("kv_cache") == wire::Policy::kDiscard);
  ProcessView view;
  view.introduction.role = "rollout";
  view.introduction.rank = 1;
  CHECK(Matches(order->selector, view));
  view.introduction.rank = 2;
  CHECK_FALSE(Matches(order->selector, view));
  view.introduction = {};
  view.introduction.rank = 1;
  CHECK_FALSE(Matches(order->selector, view));

  in.set_policy(v1::POLICY_HOST);
  (*in.mutable_tag_policies())["kv_cache"] = v1::POLICY_KEEP;
  const auto other = Read(in, {caller, groups});
  CHECK(other->policies.all == wire::Policy::kHost);
  CHECK(other->policies.by_tag.at("kv_cache") == wire::Policy::kKeep);
  in.mutable_selector()->set_group("nobody");
  const auto unknown = Read(in, {caller, groups}).status();
  CHECK(ReasonOf(unknown) == "NO_GROUP");
  CHECK(MetadataOf(unknown)["known_groups"] == "rollout");
}

TEST_CASE("a group is written as it was read, and none selects another") {
  v1::Group in;
  in.set_name("actor");
  in.mutable_selector()->set_job("rl");
  in.mutable_selector()->add_ranks(3);
  in.set_policy(v1::POLICY_AUTO);
  (*in.mutable_tag_policies())["grad_buffer"] = v1::POLICY_DISCARD;
  const auto group = Read(in, "uid 1");
  REQUIRE(group.ok());
  v1::Group out;
  Write(*group, &out);
  CHECK(out.SerializeAsString() == in.SerializeAsString());
  in.mutable_selector()->set_group("other");
  CHECK(ReasonOf(Read(in, "uid 1").status()) == "BAD_SELECTOR");
}

TEST_CASE("a handoff is its two parts, and what belongs to both is said once") {
  v1::HandoffRequest in;
  in.mutable_outgoing()->mutable_selector()->set_role("rollout");
  in.mutable_outgoing()->set_policy(v1::POLICY_DISK);
  in.mutable_incoming()->mutable_selector()->add_pids(7);
  in.mutable_incoming()->set_release_host(true);
  in.set_epoch(9);
  auto order = Parse(in);
  REQUIRE(order.ok());
  CHECK(order->outgoing.selector.role == "rollout");
  CHECK(order->outgoing.policies.all == wire::Policy::kDisk);
  CHECK(order->outgoing.epoch == 9);
  CHECK(order->incoming.selector.pids == std::vector<int32_t>{7});
  CHECK(order->incoming.release_host);
  CHECK(order->overlap == Overlap::kHost);
  const std::pair<v1::Overlap, Overlap> overlaps[] = {{v1::OVERLAP_HOST, Overlap::kHost},
                                                      {v1::OVERLAP_GPU, Overlap::kGpu},
                                                      {v1::OVERLAP_ORDERED, Overlap::kOrdered}};
  for (const auto& [theirs, ours] : overlaps) {
    in.set_overlap(theirs);
    CHECK(Parse(in)->overlap == ours);
  }
  const auto refused = [&](auto change) {
    v1::HandoffRequest wrong = in;
    change(wrong);
    return ReasonOf(Parse(wrong).status());
  };
  CHECK(refused([](auto& r) { r.set_overlap(v1::Overlap(4)); }) == "BAD_REQUEST");
  CHECK(refused([](auto& r) { r.mutable_outgoing()->set_request_id("x"); }) == "BAD_REQUEST");
  CHECK(refused([](auto& r) { r.mutable_incoming()->set_epoch(1); }) == "BAD_REQUEST");
  CHECK(refused([](auto& r) { r.mutable_incoming()->set_dry_run(true); }) == "BAD_REQUEST");
  CHECK(refused([](auto& r) { r.mutable_incoming()->mutable_wait_timeout(); }) == "BAD_REQUEST");
  CHECK(refused([](auto& r) { r.mutable_outgoing()->set_gate_mode(v1::GATE_MODE_OPEN); }) ==
        "BAD_REQUEST");
  CHECK(refused([](auto& r) { r.mutable_incoming()->mutable_selector()->set_group("none"); }) ==
        "NO_GROUP");
}

TEST_CASE("kinds of operations have the API's numbers, and their failures all that is known") {
  const std::pair<OperationKind, v1::Operation::Kind> kinds[] = {
      {OperationKind::kPause, v1::Operation::KIND_PAUSE},
      {OperationKind::kResume, v1::Operation::KIND_RESUME},
      {OperationKind::kHandoff, v1::Operation::KIND_HANDOFF}};
  for (const auto& [ours, theirs] : kinds) {
    OperationView view;
    view.kind = ours;
    v1::Operation out;
    Write(view, &out);
    CHECK(out.kind() == theirs);
  }
}

TEST_CASE("a forecast is written with every share and refusal") {
  Forecast in;
  ProcessForecast& process = in.processes.emplace_back();
  process.pid = 7;
  process.tags.push_back({"t\n", wire::Policy::kAuto, 1, 2, 3, 4});
  process.needed = {{"GPU-a", 5}};
  process.host = 6;
  process.disk = 7;
  process.new_host = 8;
  in.Refuse(absl::OkStatus());
  in.Refuse(Fail(absl::StatusCode::kNotFound, "NO_FILE", "gone", {{"path", "/x"}}));
  in.seconds = 1.5;
  v1::Forecast out;
  Write(in, &out);
  REQUIRE(out.processes_size() == 1);
  const auto& tag = out.processes(0).tags(0);
  CHECK(tag.tag() == "t?");
  CHECK(tag.policy() == v1::POLICY_AUTO);
  CHECK(tag.host_bytes() + 10 * tag.disk_bytes() + 100 * tag.discarded_bytes() +
            1000 * tag.kept_bytes() ==
        4321);
  CHECK(out.processes(0).gpus(0).needed_bytes() == 5);
  CHECK(out.processes(0).new_host_bytes() == 8);
  REQUIRE(out.refusals_size() == 1);
  CHECK(out.refusals(0).reason() == "NO_FILE");
  CHECK(out.refusals(0).metadata().at("path") == "/x");
  CHECK(out.seconds() == 1.5);
}
