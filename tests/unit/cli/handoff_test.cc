// `parkade handoff`, `wait-free` and `--dry-run` against a daemon in software.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

v1::Forecast Foretold() {
  v1::Forecast forecast;
  auto* out = forecast.add_processes();
  out->set_pid(4711);
  auto* tag = out->add_tags();
  tag->set_tag("kv\033cache");
  tag->set_policy(v1::POLICY_DISCARD);
  tag->set_discarded_bytes(2 << 20);
  auto* in = forecast.add_processes();
  in->set_pid(4712);
  in->set_host_bytes(1 << 20);
  auto* gpu = in->add_gpus();
  gpu->set_uuid("GPU-aaaa");
  gpu->set_needed_bytes(4 << 20);
  forecast.set_seconds(1.5);
  return forecast;
}

}  // namespace

TEST_CASE("handoff says who goes out and who comes in, by group or by PID") {
  FakeControl daemon;
  daemon.handoff_answer.add_results()->set_pid(4711);
  const Outcome o = RunCli(
      {"handoff",      "--out",          "rollout",          "--in",   "4712,4713",     "--policy",
       "disk",         "--tag-policy",   "kv_cache=discard", "--tags", "weights",       "--overlap",
       "ordered",      "--release-host", "--priority",       "3",      "--epoch",       "7",
       "--request-id", "step",           "--drain-timeout",  "3s",     "--scratch-dir", "/scratch",
       daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(o.out.find("4711") != std::string::npos);
  const v1::HandoffRequest& request = daemon.handoff_request;
  CHECK(request.outgoing().selector().group() == "rollout");
  CHECK(request.outgoing().policy() == v1::POLICY_DISK);
  CHECK(request.outgoing().tag_policies().at("kv_cache") == v1::POLICY_DISCARD);
  CHECK(request.outgoing().tags(0) == "weights");
  CHECK(request.outgoing().drain_timeout().seconds() == 3);
  CHECK(request.outgoing().scratch_base() == "/scratch");
  REQUIRE(request.incoming().selector().pids_size() == 2);
  CHECK(request.incoming().selector().pids(1) == 4713);
  CHECK(request.incoming().release_host());
  CHECK(request.incoming().priority() == 3);
  CHECK(request.overlap() == v1::OVERLAP_ORDERED);
  CHECK(request.epoch() == 7);
  CHECK(request.request_id() == "step");
  CHECK_FALSE(request.dry_run());
  CHECK(request.outgoing().request_id() == "");
}

TEST_CASE("handoff refuses what is no side, before the daemon is asked") {
  FakeControl daemon;
  CHECK(RunCli({"handoff", "--out", "a", daemon.flag()}).exit_code == kExitUsage);
  for (const char* wrong : {"0", "1,,2", ",", "99999999999", ""}) {
    INFO(wrong);
    CHECK(RunCli({"handoff", "--out", wrong, "--in", "b", daemon.flag()}).exit_code == kExitUsage);
  }
  CHECK(RunCli({"handoff", "--out", "a", "--in", "b", "--overlap", "both", daemon.flag()})
            .exit_code == kExitUsage);
  CHECK(RunCli({"handoff", "--out", "a", "--in", "b", "--timeout", "1s", "--drain-timeout", "2s",
                daemon.flag()})
            .exit_code == kExitUsage);
  CHECK(daemon.moves == 0);
  daemon.error = ErrorWithReason(grpc::StatusCode::RESOURCE_EXHAUSTED, "no room", "GPU_MEMORY");
  CHECK(RunCli({"handoff", "--out", "a", "--in", "b", daemon.flag()}).exit_code == kExitResources);
}

TEST_CASE("a dry run shows what would move, and fails as the first refusal would") {
  FakeControl daemon;
  *daemon.handoff_answer.mutable_forecast() = Foretold();
  const Outcome good = RunCli({"handoff", "--out", "a", "--in", "b", "--dry-run", daemon.flag()});
  CHECK(daemon.handoff_request.dry_run());
  CHECK(good.exit_code == 0);
  CHECK(good.out.find("4711  kv?cache") != std::string::npos);
  CHECK(good.out.find("4 MiB") != std::string::npos);
  CHECK(good.out.find("about 1.50 s\n") != std::string::npos);

  auto* forecast = daemon.pause_answer.mutable_forecast();
  *forecast = Foretold();
  auto* refusal = forecast->add_refusals();
  refusal->set_code(int(grpc::StatusCode::RESOURCE_EXHAUSTED));
  refusal->set_reason("HOST_MEMORY");
  refusal->set_message("too little");
  const Outcome refused = RunCli({"pause", "4711", "--dry-run", daemon.flag()});
  CHECK(daemon.pause_request.dry_run());
  CHECK(refused.exit_code == kExitResources);
  CHECK(refused.out.find("refused: too little (HOST_MEMORY)\n") != std::string::npos);
  const Outcome as_json = RunCli({"pause", "4711", "--dry-run", "-o", "json", daemon.flag()});
  const auto json = nlohmann::json::parse(as_json.out);
  CHECK(json["refusals"][0]["reason"] == "HOST_MEMORY");
  CHECK(json["processes"][0]["tags"][0]["policy"] == "discard");
  CHECK(json["processes"][1]["gpus"][0]["needed_bytes"] == 4 << 20);
  CHECK(json["seconds"] == 1.5);

  daemon.resume_answer.mutable_forecast();
  CHECK(RunCli({"resume", "4711", "--dry-run", daemon.flag()}).out == "");
  CHECK(daemon.resume_request.dry_run());
}

TEST_CASE("wait-free names a GPU by index or UUID") {
  FakeControl daemon;
  daemon.node_answer.add_gpus()->set_uuid("GPU-aaaa");
  daemon.free_answer.set_free_bytes(uint64_t(5) << 30);
  daemon.free_answer.set_booked_bytes(1 << 30);
  const Outcome o = RunCli({"wait-free", "0", "4GiB", "--wait", "30s", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(o.out == "5.00 GiB free, 1.00 GiB of it booked, 0 reserved, after 0 s\n");
  CHECK(daemon.free_request.gpu_uuid() == "GPU-aaaa");
  CHECK(daemon.free_request.bytes() == uint64_t(4) << 30);
  CHECK(daemon.free_request.wait_timeout().seconds() == 30);
  const Outcome json = RunCli({"wait-free", "GPU-bbbb", "1M", "-o", "json", daemon.flag()});
  CHECK(daemon.free_request.gpu_uuid() == "GPU-bbbb");
  CHECK(nlohmann::json::parse(json.out)["booked_bytes"] == 1 << 30);
  CHECK(RunCli({"wait-free", "1", "1M", daemon.flag()}).exit_code == kExitNotFound);
  CHECK(RunCli({"wait-free", "0", "0", daemon.flag()}).exit_code == kExitUsage);
  CHECK(RunCli({"wait-free", "0", daemon.flag()}).exit_code == kExitUsage);
}

}  // namespace parkade::cli
