// The whole daemon: a controller that was replaced moves nothing any more.
#include <catch2/catch.hpp>

#include "tests/unit/daemon/daemon_run.h"

using namespace parkade;
using testing::DaemonRun;
using testing::PauseOf;
using testing::ReasonIn;

TEST_CASE("a caller with a lower epoch than the last one's is refused, and nothing changes") {
  DaemonRun run;
  const auto a = run.StartShim({"1048576"});
  const auto b = run.StartShim({"1048576"});
  auto pause = PauseOf({a->pid()}, v1::POLICY_HOST);
  v1::PauseResponse paused;
  pause.set_epoch(5);
  REQUIRE(run.Pause(pause, &paused).ok());
  CHECK(run.Find(a->pid()).epoch() == 5);
  CHECK(run.Find(a->pid()).gate_mode() == v1::GATE_MODE_CLOSED);

  // One member of a group is enough.
  auto both = PauseOf({a->pid(), b->pid()}, v1::POLICY_HOST);
  both.set_epoch(4);
  auto status = run.Pause(both, &paused);
  CHECK(status.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK(ReasonIn(status) == "STALE_EPOCH");
  CHECK(run.Find(b->pid()).state() == v1::PROCESS_STATE_RUNNING);

  v1::ResumeRequest resume;
  resume.mutable_selector()->add_pids(a->pid());
  const auto resume_as = [&](uint64_t epoch) {
    resume.set_epoch(epoch);
    grpc::ClientContext context;
    v1::ResumeResponse response;
    return run.stub().Resume(&context, resume, &response);
  };
  CHECK(ReasonIn(resume_as(4)) == "STALE_EPOCH");
  CHECK(run.Find(a->pid()).state() == v1::PROCESS_STATE_PAUSED);
  CHECK(resume_as(5).ok());  // its own
  CHECK(resume_as(6).ok());
  both.set_epoch(6);
  CHECK(run.Pause(both, &paused).ok());
  CHECK(run.Find(b->pid()).epoch() == 6);
  CHECK(resume_as(0).ok());  // no epoch, no check
}

TEST_CASE("a caller who finds his work done makes lower epochs stale all the same") {
  DaemonRun run;
  const auto shim = run.StartShim({"1048576"});
  auto pause = PauseOf({shim->pid()}, v1::POLICY_HOST);
  v1::PauseResponse paused;
  pause.set_epoch(5);
  REQUIRE(run.Pause(pause, &paused).ok());
  pause.set_epoch(10);
  REQUIRE(run.Pause(pause, &paused).ok());
  CHECK(paused.results(0).already());
  CHECK(run.Find(shim->pid()).epoch() == 10);
  v1::ResumeRequest resume;
  resume.mutable_selector()->add_pids(shim->pid());
  resume.set_epoch(5);
  grpc::ClientContext context;
  v1::ResumeResponse response;
  CHECK(ReasonIn(run.stub().Resume(&context, resume, &response)) == "STALE_EPOCH");
  CHECK(run.Find(shim->pid()).state() == v1::PROCESS_STATE_PAUSED);
}

TEST_CASE("a pause with an open gate says so until the resume") {
  DaemonRun run;
  const auto shim = run.StartShim({"1048576"});
  auto pause = PauseOf({shim->pid()}, v1::POLICY_HOST);
  pause.set_gate_mode(v1::GATE_MODE_OPEN);
  v1::PauseResponse paused;
  REQUIRE(run.Pause(pause, &paused).ok());
  CHECK(run.Find(shim->pid()).gate_mode() == v1::GATE_MODE_OPEN);
  v1::ResumeResponse resumed;
  REQUIRE(run.Resume(shim->pid(), &resumed).ok());
  CHECK(run.Find(shim->pid()).gate_mode() == v1::GATE_MODE_UNSPECIFIED);
}
