// `parkade ops` and `parkade cancel` against a daemon in software.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

v1::Operation Running() {
  v1::Operation operation;
  operation.set_id("m3-7");
  operation.set_request_id("step 12");
  operation.set_caller("uid 1000");
  operation.set_kind(v1::Operation::KIND_PAUSE);
  operation.set_state(v1::Operation::STATE_RUNNING);
  operation.add_pids(4711);
  operation.add_pids(4712);
  operation.mutable_begin_time()->set_seconds(1'000'000'000);
  auto* progress = operation.mutable_progress();
  progress->set_done_bytes(1 << 30);
  progress->set_total_bytes(uint64_t(4) << 30);
  progress->set_bytes_per_second(2e9);
  progress->mutable_time_left()->set_seconds(2);
  return operation;
}

v1::Operation Ended(v1::Operation::State state) {
  v1::Operation operation = Running();
  operation.set_state(state);
  operation.clear_progress();
  operation.mutable_end_time()->set_seconds(1'000'000'003);
  if (state == v1::Operation::STATE_DONE) {
    operation.add_results()->set_host_bytes(3 << 20);
  } else {
    operation.mutable_failure()->set_code(1);
    operation.mutable_failure()->set_reason("CANCELLED");
    operation.mutable_failure()->set_message("cancelled by \033uid 0");
  }
  return operation;
}

}  // namespace

TEST_CASE("ops says how far each operation is, and how it ended") {
  FakeControl daemon;
  *daemon.operations_answer.add_operations() = Ended(v1::Operation::STATE_DONE);
  *daemon.operations_answer.add_operations() = Ended(v1::Operation::STATE_FAILED);
  const Outcome o = RunCli({"ops", "--ended", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(o.out ==
        "ID    KIND   STATE     TIME  PIDS       OUTCOME\n"
        "m3-7  pause  done    3.00 s  4711,4712  3 MiB\n"
        "m3-7  pause  failed  3.00 s  4711,4712  CANCELLED: cancelled by ?uid 0\n");
  CHECK(daemon.operations_request.ended());
  daemon.operations_answer.Clear();
  *daemon.operations_answer.add_operations() = Running();
  const Outcome running = RunCli({"ops", "-o", "wide", daemon.flag()});
  CHECK_FALSE(daemon.operations_request.ended());
  CHECK(running.out.find("1.00 GiB of 4.00 GiB, 2.00 GB/s, 2.00 s left") != std::string::npos);
  CHECK(running.out.find("step 12") != std::string::npos);
}

TEST_CASE("ops as JSON has stable keys") {
  FakeControl daemon;
  *daemon.operations_answer.add_operations() = Running();
  *daemon.operations_answer.add_operations() = Ended(v1::Operation::STATE_FAILED);
  const Outcome o = RunCli({"ops", "-o", "json", daemon.flag()});
  const auto json = nlohmann::json::parse(o.out)["operations"];
  CHECK(json[0]["state"] == "running");
  CHECK(json[0]["end_time"] == nullptr);
  CHECK(json[0]["progress"]["done_bytes"] == 1 << 30);
  CHECK(json[0]["failure"] == nullptr);
  CHECK(json[1]["failure"]["reason"] == "CANCELLED");
  CHECK(json[1]["end_time"] == "2001-09-09T01:46:43.000+00:00");
}

TEST_CASE("cancel succeeds when the operation was cancelled, not when it was over or goes on") {
  FakeControl daemon;
  daemon.cancel_answer = Ended(v1::Operation::STATE_FAILED);
  const Outcome cancelled = RunCli({"cancel", "m3-7", daemon.flag()});
  CHECK(cancelled.exit_code == 0);
  CHECK(cancelled.err == "");
  CHECK(daemon.cancel_request.id() == "m3-7");
  daemon.cancel_answer = Ended(v1::Operation::STATE_DONE);
  const Outcome done = RunCli({"cancel", "--request-id", "step 12", daemon.flag()});
  CHECK(done.exit_code == kExitState);
  CHECK(daemon.cancel_request.request_id() == "step 12");
  daemon.cancel_answer = Running();
  CHECK(RunCli({"cancel", "m3-7", daemon.flag()}).exit_code == kExitTimeout);
  daemon.error = ErrorWithReason(grpc::StatusCode::NOT_FOUND, "no such operation", "NO_OPERATION");
  CHECK(RunCli({"cancel", "m3-7", daemon.flag()}).exit_code == kExitNotFound);
  CHECK(RunCli({"cancel", daemon.flag()}).exit_code == kExitUsage);
  CHECK(RunCli({"cancel", "m3-7", "--request-id", "x", daemon.flag()}).exit_code == kExitUsage);
}

TEST_CASE("watch --operations shows operations beside processes") {
  FakeControl daemon;
  v1::Event event;
  event.set_kind(v1::Event::KIND_OPERATION);
  *event.mutable_operation() = Running();
  daemon.events = {event};
  const Outcome o = RunCli({"watch", "--operations", daemon.flag()});
  CHECK(daemon.watch_request.operations());
  CHECK(o.out.find("operation m3-7  pause running  1.00 GiB of 4.00 GiB") != std::string::npos);
  const Outcome json = RunCli({"watch", "--operations", "-o", "json", daemon.flag()});
  CHECK(nlohmann::json::parse(json.out)["operation"]["id"] == "m3-7");
}

}  // namespace parkade::cli
