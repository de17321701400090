// `parkade resume` against a daemon in software.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/bytes.h"
#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {

TEST_CASE("resume sends what was asked for and prints what came back") {
  FakeControl daemon;
  v1::TransitionResult* result = daemon.resume_answer.add_results();
  result->set_pid(4711);
  result->set_state(v1::PROCESS_STATE_RUNNING);
  result->set_disk_bytes(2_GiB);
  result->set_move_seconds(1);
  v1::GpuChange* gpu = result->add_gpus();
  gpu->set_free_before_bytes(9_GiB);
  gpu->set_free_after_bytes(7_GiB);
  const Outcome o = RunCli({"resume", "--job", "rl", "--release-host", "--request-id", "r2",
                            "--epoch", "7", "--wait", "1500ms", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(daemon.resume_request.selector().job() == "rl");
  CHECK(daemon.resume_request.release_host());
  CHECK(daemon.resume_request.request_id() == "r2");
  CHECK(daemon.resume_request.epoch() == 7);
  CHECK(daemon.resume_request.wait_timeout().seconds() == 1);
  CHECK(daemon.resume_request.wait_timeout().nanos() == 500'000'000);
  CHECK(o.out.find("running     0  2.00 GiB") != std::string::npos);
  CHECK(o.out.find("2.15 GB/s") != std::string::npos);
  CHECK(o.out.find("-2.00 GiB") != std::string::npos);
}

TEST_CASE("resume of tags sends them in their order, and the gate where it is named") {
  FakeControl daemon;
  v1::TransitionResult* result = daemon.resume_answer.add_results();
  result->set_pid(4711);
  result->set_state(v1::PROCESS_STATE_PAUSED);
  const Outcome o = RunCli({"resume", "4711", "--tags", "weights,kv_cache", daemon.flag()});
  CHECK(o.exit_code == 0);
  REQUIRE(daemon.resume_request.tags_size() == 1);
  CHECK(daemon.resume_request.tags(0) == "weights,kv_cache");
  CHECK(daemon.resume_request.gate_mode() == v1::GATE_MODE_UNSPECIFIED);
  CHECK(o.out.find("paused") != std::string::npos);
  CHECK(RunCli({"resume", "4711", "--tags", "a", "--gate", "closed", daemon.flag()}).exit_code ==
        0);
  CHECK(daemon.resume_request.gate_mode() == v1::GATE_MODE_CLOSED);
  CHECK(RunCli({"resume", "4711", "--tags", "a", "--gate", "open", daemon.flag()}).exit_code == 0);
  CHECK(daemon.resume_request.gate_mode() == v1::GATE_MODE_OPEN);
  CHECK(RunCli({"resume", "4711", "--gate", "open", daemon.flag()}).exit_code == kExitUsage);
  CHECK(RunCli({"resume", "1", "--tags", "a", "--gate", "ajar", daemon.flag()}).exit_code ==
        kExitUsage);
}

TEST_CASE("resume without room says what to do") {
  FakeControl daemon;
  daemon.error = ErrorWithReason(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                 "needs 8 GiB, 2 GiB are free", "GPU_MEMORY");
  const Outcome o = RunCli({"resume", "4711", daemon.flag()});
  CHECK(o.exit_code == kExitResources);
  CHECK(o.err ==
        "parkade: resume 4711: needs 8 GiB, 2 GiB are free (GPU_MEMORY); pause or end what holds "
        "it, then try again\n");
}

TEST_CASE("resume needs a selection and refuses pause's options") {
  FakeControl daemon;
  CHECK(RunCli({"resume", daemon.flag()}).exit_code == kExitUsage);
  CHECK(RunCli({"resume", "1", "--policy", "host", daemon.flag()}).exit_code == kExitUsage);
  CHECK(RunCli({"resume", "1", "--drain-timeout", "1s", daemon.flag()}).exit_code == kExitUsage);
  CHECK(RunCli({"resume", "1", "--wait", "0s", daemon.flag()}).exit_code == kExitUsage);
  CHECK(RunCli({"resume", "1", "--wait", "5s", "--timeout", "5s", daemon.flag()}).exit_code ==
        kExitUsage);
  CHECK(daemon.moves == 0);
}

}  // namespace parkade::cli
