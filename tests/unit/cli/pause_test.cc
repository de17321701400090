// `parkade pause` against a daemon in software: what it asks, what it refuses, what it prints.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/bytes.h"
#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

v1::TransitionResult MakeResult() {
  v1::TransitionResult result;
  result.set_pid(4711);
  result.set_state(v1::PROCESS_STATE_PAUSED);
  result.set_host_bytes(8_GiB);
  result.set_disk_bytes(0);
  result.set_released_bytes(8_GiB);
  result.set_gate_seconds(0.001);
  result.set_drain_seconds(0.02);
  result.set_move_seconds(0.2);
  result.set_total_seconds(0.25);
  v1::GpuChange* gpu = result.add_gpus();
  gpu->set_uuid("GPU-aaaa");
  gpu->set_free_before_bytes(1_GiB);
  gpu->set_free_after_bytes(9_GiB);
  gpu->set_expected_bytes(8_GiB);
  return result;
}

}  // namespace

TEST_CASE("pause sends what was asked for") {
  FakeControl daemon;
  const Outcome o =
      RunCli({"pause", "4711", "4712", "--policy", "auto", "--tag-policy", "kv_cache=discard",
              "--tag-policy", "a=b=keep", "--drain-timeout", "1500ms", "--scratch-dir", "/scratch",
              "--chunk", "64M", "--request-id", "r1", daemon.flag()});
  CHECK(o.err == "");
  CHECK(o.exit_code == 0);
  const v1::PauseRequest& r = daemon.pause_request;
  CHECK(r.selector().pids_size() == 2);
  CHECK(r.policy() == v1::POLICY_AUTO);
  CHECK(r.tag_policies().at("kv_cache") == v1::POLICY_DISCARD);
  CHECK(r.tag_policies().at("a=b") == v1::POLICY_KEEP);
  CHECK(r.drain_timeout().seconds() == 1);
  CHECK(r.drain_timeout().nanos() == 500'000'000);
  CHECK(r.scratch_base() == "/scratch");
  CHECK(r.chunk_bytes() == 64_MiB);
  CHECK(r.request_id() == "r1");
}

TEST_CASE("pause says how the gate closes and who asks") {
  FakeControl daemon;
  REQUIRE(RunCli({"pause", "1", "--gate", "closed", "--gated-work", "fail", "--gated-allocations",
                  "pass", "--on-exported", "refuse", "--elision", "bytes", "--epoch",
                  "18446744073709551615", daemon.flag()})
              .exit_code == 0);
  const v1::PauseRequest& r = daemon.pause_request;
  CHECK(r.epoch() == UINT64_MAX);
  CHECK(r.gate_mode() == v1::GATE_MODE_CLOSED);
  CHECK(r.gated_work() == v1::GATED_WORK_FAIL);
  CHECK(r.gated_allocations() == v1::GATED_ALLOCATIONS_PASS);
  CHECK(r.on_exported() == v1::ON_EXPORTED_REFUSE);
  CHECK(r.elision() == v1::ELISION_BYTES);
  REQUIRE(RunCli({"pause", "1", "--gate", "open", daemon.flag()}).exit_code == 0);
  CHECK(daemon.pause_request.gate_mode() == v1::GATE_MODE_OPEN);
  CHECK(daemon.pause_request.gated_work() == v1::GATED_WORK_UNSPECIFIED);
}

TEST_CASE("pause --deep asks for it, and says what became of it") {
  FakeControl daemon;
  v1::TransitionResult* deep = daemon.pause_answer.add_results();
  *deep = MakeResult();
  deep->mutable_deep()->set_deep(true);
  deep->mutable_deep()->set_freed_bytes(620_MiB);
  deep->mutable_deep()->set_seconds(0.5);
  v1::TransitionResult* plain = daemon.pause_answer.add_results();
  *plain = MakeResult();
  plain->set_pid(4712);
  plain->mutable_deep()->mutable_refusal()->set_reason("FOREIGN_MEMORY");
  plain->mutable_deep()->mutable_refusal()->set_message("it has memory of NCCL's");
  const Outcome o = RunCli({"pause", "4711", "4712", "--deep", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(daemon.pause_request.deep());
  CHECK(Has(o.out, "620 MiB"));
  CHECK(Has(o.out, "500 ms"));
  CHECK(Has(o.out, "it has memory of NCCL's (FOREIGN_MEMORY)"));
  const auto json = nlohmann::json::parse(
      RunCli({"pause", "4711", "4712", "--deep", "-o", "json", daemon.flag()}).out);
  CHECK(json["results"][0]["deep"]["freed_bytes"] == 620_MiB);
  CHECK(json["results"][0]["deep"]["refusal"].is_null());
  CHECK(json["results"][1]["deep"]["refusal"]["reason"] == "FOREIGN_MEMORY");
  CHECK(RunCli({"pause", "4711", "--deep", "--gate", "open", daemon.flag()}).exit_code == 2);
}

TEST_CASE(
    "pause with write-behind goes on to disk, and gives host memory back where that is asked") {
  FakeControl daemon;
  auto* result = daemon.pause_answer.add_results();
  result->set_write_behind_id("m3-9");
  const Outcome o =
      RunCli({"pause", "1", "--write-behind", "--release-host", "-o", "json", daemon.flag()});
  REQUIRE(o.exit_code == 0);
  CHECK(daemon.pause_request.write_behind());
  CHECK(daemon.pause_request.release_host());
  CHECK(Has(o.out, "\"write_behind_id\": \"m3-9\""));
  CHECK(Has(RunCli({"pause", "1", "--write-behind", daemon.flag()}).out, "operation m3-9\n"));
  CHECK(RunCli({"pause", "1", "--write-behind", "--policy", "host", daemon.flag()}).exit_code == 2);
  CHECK(RunCli({"pause", "1", "--release-host", daemon.flag()}).exit_code == 2);
  CHECK(RunCli({"pause", "1", "--write-behind", "--policy", "auto", daemon.flag()}).exit_code == 0);
}

TEST_CASE("pause leaves what was not asked for to the daemon") {
  FakeControl daemon;
  REQUIRE(RunCli({"pause", "--all", daemon.flag()}).exit_code == 0);
  v1::PauseRequest expected;
  expected.mutable_selector()->set_all(true);
  CHECK(daemon.pause_request.SerializeAsString() == expected.SerializeAsString());
}

TEST_CASE("pause prints bytes by tier, seconds by phase and the driver's memory") {
  FakeControl daemon;
  *daemon.pause_answer.add_results() = MakeResult();
  CHECK(RunCli({"pause", "4711", daemon.flag()}).out ==
        " PID  STATE       HOST  DISK     GATE    DRAIN    MOVE   TOTAL       RATE\n"
        "4711  paused  8.00 GiB     0  1.00 ms  20.0 ms  200 ms  250 ms  42.9 GB/s\n"
        "\n"
        " PID  FREE BEFORE  FREE AFTER     CHANGE  EXPECTED  GPU\n"
        "4711     1.00 GiB    9.00 GiB  +8.00 GiB  8.00 GiB  GPU-aaaa\n");
}

TEST_CASE("what needed no copy, was discarded or kept is shown whenever there is any") {
  FakeControl daemon;
  v1::TransitionResult result = MakeResult();
  result.set_discarded_bytes(3_GiB);
  *daemon.pause_answer.add_results() = result;
  const std::string out = RunCli({"pause", "4711", daemon.flag()}).out;
  CHECK(Has(out, "DISCARDED"));
  CHECK_FALSE(Has(out, "ELIDED"));
  CHECK(Has(out, "3.00 GiB"));
  CHECK_FALSE(Has(out, "KEPT"));
  CHECK(Has(RunCli({"pause", "4711", "-o", "wide", daemon.flag()}).out, "RESIDUE"));
  daemon.pause_answer.mutable_results(0)->set_elided_bytes(5_GiB);
  const std::string elided = RunCli({"pause", "4711", daemon.flag()}).out;
  CHECK(Has(elided, "ELIDED"));
  CHECK(Has(elided, "5.00 GiB"));
}

TEST_CASE("pausing what is paused says already") {
  FakeControl daemon;
  v1::TransitionResult* result = daemon.pause_answer.add_results();
  result->set_pid(4711);
  result->set_state(v1::PROCESS_STATE_PAUSED);
  result->set_already(true);
  const Outcome o = RunCli({"pause", "4711", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(Has(o.out, "paused already"));
}

TEST_CASE("pause -o json has every figure") {
  FakeControl daemon;
  *daemon.pause_answer.add_results() = MakeResult();
  const Outcome o = RunCli({"pause", "4711", "-o", "json", daemon.flag()});
  CHECK(nlohmann::json::parse(o.out) == nlohmann::json::parse(R"({
    "schema_version": 1,
    "results": [{"pid": 4711, "already": false, "state": "paused", "host_bytes": 8589934592,
      "disk_bytes": 0, "elided_bytes": 0, "discarded_bytes": 0, "kept_bytes": 0, "released_bytes": 8589934592,
      "gate_seconds": 0.001, "drain_seconds": 0.02, "move_seconds": 0.2, "total_seconds": 0.25,
      "residue_bytes": null, "let_through": 0, "wait_seconds": 0.0, "left_bytes": 0, "write_behind_id": null,
      "gpus": [{"uuid": "GPU-aaaa", "free_before_bytes": 1073741824,
        "free_after_bytes": 9663676416, "expected_bytes": 8589934592,
        "peak_bytes": 0, "allowed_bytes": 0}], "deep": null}]})"));
}

TEST_CASE("pause refuses bad input before the daemon is asked") {
  FakeControl daemon;
  const std::pair<std::vector<std::string>, std::string> kCases[] = {
      {{}, "no process is selected"},
      {{"x"}, "no process ID"},
      {{"0"}, "no process ID"},
      {{"--all", "4711"}, "--all selects every process"},
      {{"1", "--policy", "discard"}, "would lose every byte"},
      {{"1", "--policy", "keep"}, "moves nothing"},
      {{"1", "--policy", "tape"}, "tape"},
      {{"1", "--tag-policy", "a"}, "TAG=POLICY"},
      {{"1", "--tag-policy", "=host"}, "TAG=POLICY"},
      {{"1", "--tag-policy", "a=tape"}, "TAG=POLICY"},
      {{"1", "--tag-policy", std::string(32, 'x') + "=host"}, "TAG=POLICY"},
      {{"1", "--tag-policy", "a=host", "--tag-policy", "a=disk"}, "given twice"},
      {{"1", "--drain-timeout", "0s"}, "more than zero"},
      {{"1", "--drain-timeout", "-1s"}, "more than zero"},
      {{"1", "--drain-timeout", "30"}, "unit"},
      {{"1", "--drain-timeout", "30s", "--timeout", "10s"}, "longer than --drain-timeout"},
      {{"1", "--chunk", "0"}, "more than zero"},
      {{"1", "--chunk", "-64M"}, "--chunk"},
      {{"1", "--chunk", "1M"}, "16 MiB"},
      {{"1", "--chunk", "64M", "--policy", "host"}, "no effect"},
      {{"1", "--scratch-dir", "/x", "--policy", "host"}, "no effect"},
      {{"1", "--scratch-dir", "x"}, "absolute"},
      {{"1", "--frobnicate"}, "--frobnicate"},
      {{"1", "--gate", "ajar"}, "ajar"},
      {{"1", "--gated-work", "drop"}, "drop"},
      {{"1", "--gate", "open", "--gated-work", "fail"}, "no effect with --gate open"},
      {{"1", "--gate", "open", "--gated-allocations", "pass"}, "no effect with --gate open"},
      {{"1", "--epoch", "0"}, "no epoch"},
      {{"1", "--epoch", "-1"}, "no epoch"},
  };
  for (const auto& [arguments, why] : kCases) {
    INFO(why);
    std::vector<std::string> all = {"pause", daemon.flag()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome o = RunCli(all);
    CHECK(o.exit_code == kExitUsage);
    CHECK(Has(o.err, why));
    CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
    CHECK(o.out == "");
  }
  CHECK(daemon.moves == 0);
}

TEST_CASE("disk settings count where a tag or the process's default may use the disk") {
  FakeControl daemon;
  CHECK(RunCli({"pause", "1", "--chunk", "64M", daemon.flag()}).exit_code == 0);
  CHECK(RunCli({"pause", "1", "--policy", "host", "--tag-policy", "a=disk", "--chunk", "64M",
                "--scratch-dir", "/x", daemon.flag()})
            .exit_code == 0);
}

TEST_CASE("the daemon's errors keep their reason and become exit codes") {
  using grpc::StatusCode;
  struct Case {
    StatusCode code;
    const char* reason;
    int exit_code;
  };
  const Case kCases[] = {
      {StatusCode::INVALID_ARGUMENT, "UNKNOWN_TAG", 2},
      {StatusCode::NOT_FOUND, "NO_PROCESS", 3},
      {StatusCode::FAILED_PRECONDITION, "BUSY", 4},
      {StatusCode::UNAVAILABLE, "SHIM_DISCONNECTED", 4},
      {StatusCode::RESOURCE_EXHAUSTED, "DISK_SPACE", 5},
      {StatusCode::DATA_LOSS, "CHECKSUM", 7},
      {StatusCode::DEADLINE_EXCEEDED, "STILL_RUNNING", 124},
      {StatusCode::INTERNAL, "CUDA_ERROR_UNKNOWN", 1},
      {StatusCode::PERMISSION_DENIED, "UID_MISMATCH", 1},
  };
  FakeControl daemon;
  for (const Case& c : kCases) {
    INFO(c.reason);
    daemon.error = ErrorWithReason(c.code, "the message", c.reason);
    const Outcome o = RunCli({"pause", "4711", daemon.flag()});
    CHECK(o.exit_code == c.exit_code);
    CHECK(Has(o.err, std::string("parkade: pause 4711: the message (") + c.reason + ")"));
    CHECK(o.out == "");
  }
}

}  // namespace parkade::cli
