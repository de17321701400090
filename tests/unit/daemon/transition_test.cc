// Transitions over several processes that work, refuse, hang, disconnect and end.
#include "daemon/transition.h"

#include <catch2/catch.hpp>
#include <thread>

#include "daemon/status.h"
#include "tests/unit/daemon/wired_group.h"

using namespace parkade;
using namespace parkade::daemon;
using testing::Act;
using testing::kToHost;
using testing::Wired;
using wire::ProcessState;
using wire::Type;

namespace {

using Group = testing::WiredGroup;

const GateOrder kGate{.drain_timeout_ns = 200'000'000};

}  // namespace

TEST_CASE("a group is prepared, paused and resumed together") {
  Group group;
  auto transition = group.Begin();
  REQUIRE(transition.Prepare(kGate).ok());
  CHECK(group.AllAre(ProcessState::kPrepared));
  CHECK(group.members[0].prepared.stats.pausable_bytes == 1_MiB);
  REQUIRE(transition.Commit(kToHost).ok());
  CHECK(group.AllAre(ProcessState::kPaused));
  CHECK(group.members[2].finished.stats.host_bytes == 1_MiB);
  auto back = group.Begin();
  REQUIRE(back.Resume(false).ok());
  CHECK(group.AllAre(ProcessState::kRunning));
}

TEST_CASE("one refusal to prepare opens every gate, and nothing has moved") {
  Group group;
  group.shim(1).On(Type::kPrepare, Act::kRefuse);
  const auto status = group.Begin().Prepare(kGate);
  CHECK(ReasonOf(status) == "BUSY");
  CHECK(MetadataOf(status)["pid"] == "101");
  CHECK(group.AllAre(ProcessState::kRunning));
  for (size_t i = 0; i < 3; ++i) CHECK(group.shim(i).Count(Type::kCommit) == 0);
}

TEST_CASE("a process that never answers Prepare holds nobody else") {
  Group group({100, 500, 300});
  group.shim(2).On(Type::kPrepare, Act::kHang);
  const auto status = group.Begin().Prepare(kGate);
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(MetadataOf(status)["pid"] == "102");
  CHECK(group.AllAre(ProcessState::kRunning));
}

TEST_CASE("one that does not even answer Abort is let go") {
  Group group({100, 300, 300});
  group.shim(2).On(Type::kPrepare, Act::kHang);
  group.shim(2).On(Type::kAbort, Act::kHang);
  const auto failed = group.Begin().Prepare(kGate);
  CHECK(MetadataOf(failed)["unanswered_pids"] == "102");
  CHECK(MessageOf(failed).find("undo by themselves: 102") != std::string::npos);
  CHECK_FALSE(MetadataOf(failed).contains("paused_pids"));
  CHECK(group.shim(0).WaitFor(ProcessState::kRunning));
  for (const Deadline by = Deadline::InMs(5000); !by.Passed();) {
    if (!group.members[2].process->connected()) break;
    sched_yield();
  }
  CHECK_FALSE(group.members[2].process->connected());
}

TEST_CASE("a refusal to commit brings back those that were already paused") {
  Group group;
  auto transition = group.Begin();
  REQUIRE(transition.Prepare(kGate).ok());
  group.shim(1).On(Type::kCommit, Act::kRefuse);
  const auto status = transition.Commit(kToHost);
  CHECK(ReasonOf(status) == "BUSY");
  CHECK(group.AllAre(ProcessState::kRunning));
}

TEST_CASE("a process that is lost while the group evicts brings the others back") {
  Group group;
  auto transition = group.Begin();
  REQUIRE(transition.Prepare(kGate).ok());
  group.shim(0).On(Type::kCommit, Act::kDisconnect);
  const auto status = transition.Commit(kToHost);
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(ReasonOf(status) == "SHIM_DISCONNECTED");
  CHECK(group.shim(1).WaitFor(ProcessState::kRunning));
  CHECK(group.shim(2).WaitFor(ProcessState::kRunning));
}

TEST_CASE("an eviction that stalls is undone") {
  Group group({2000, 300, 300});
  auto transition = group.Begin();
  REQUIRE(transition.Prepare(kGate).ok());
  group.shim(1).On(Type::kCommit, Act::kHang);
  const auto status = transition.Commit(kToHost);
  CHECK(ReasonOf(status) == "SHIM_STALLED");
  CHECK(MetadataOf(status)["pid"] == "101");
  CHECK(group.AllAre(ProcessState::kRunning));
}

TEST_CASE("what cannot be brought back is named") {
  Group group;
  auto transition = group.Begin();
  REQUIRE(transition.Prepare(kGate).ok());
  group.shim(1).On(Type::kCommit, Act::kRefuse);
  group.shim(2).On(Type::kResume, Act::kRefuse);
  const auto status = transition.Commit(kToHost);
  CHECK(ReasonOf(status) == "BUSY");
  CHECK(group.shim(0).WaitFor(ProcessState::kRunning));
  // The third may have been told to abort before it had evicted.
  if (group.shim(2).state() == ProcessState::kPaused) {
    CHECK(MetadataOf(status)["paused_pids"] == "102");
  }
}

TEST_CASE("the end of a process ends every wait for it") {
  Group group({60'000, 60'000, 60'000});
  group.shim(1).On(Type::kPrepare, Act::kHang);
  std::thread end([&] {
    while (group.shim(1).Count(Type::kPrepare) == 0) sched_yield();
    group.members[1].process->End();
  });
  const auto status = group.Begin().Prepare(kGate);
  end.join();
  CHECK(ReasonOf(status) == "PROCESS_ENDED");
  CHECK(group.shim(0).WaitFor(ProcessState::kRunning));
  CHECK(group.shim(2).WaitFor(ProcessState::kRunning));
}

TEST_CASE("a failed resume leaves the others running and names who stays paused") {
  Group group;
  auto transition = group.Begin();
  REQUIRE(transition.Prepare(kGate).ok());
  REQUIRE(transition.Commit(kToHost).ok());
  group.shim(1).On(Type::kResume, Act::kRefuse);
  auto back = group.Begin();
  const auto status = back.Resume(false);
  CHECK_FALSE(status.ok());
  CHECK(MetadataOf(status)["paused_pids"] == "101");
  CHECK(group.shim(0).state() == ProcessState::kRunning);
  CHECK(group.shim(1).state() == ProcessState::kPaused);
  CHECK(group.shim(2).state() == ProcessState::kRunning);
}

TEST_CASE("a process that turns out to be paused is left alone") {
  Group group;
  std::vector<Member> first;
  first.push_back(group.members[0]);
  Transition alone(first, group.events, group.limits);
  REQUIRE(alone.Prepare(kGate).ok());
  REQUIRE(alone.Commit(kToHost).ok());
  auto transition = group.Begin();
  REQUIRE(transition.Prepare(kGate).ok());
  CHECK(group.members[0].already);
  REQUIRE(transition.Commit(kToHost).ok());
  CHECK(group.shim(0).Count(Type::kCommit) == 1);
  CHECK(group.AllAre(ProcessState::kPaused));
}

TEST_CASE("a message to a full or closed socket is answered, not waited for") {
  Identity identity;
  identity.pid = 1;
  Process process(identity, Fd());
  auto round = std::make_shared<Round>(1);
  process.Send(wire::Make<wire::Abort>(), round, 0);
  REQUIRE(round->WaitAll(Deadline::InMs(1000)));
  CHECK(ReasonOf(round->answers()[0]->status) == "SHIM_DISCONNECTED");
}

TEST_CASE("a reply with an impossible state is an error of that shim") {
  Wired wired(1, {});
  wired.shim().On(Type::kAbort, Act::kHang);
  auto round = std::make_shared<Round>(1);
  wired.process()->Send(wire::Make<wire::Abort>(), round, 0);
  // Its op_id is not known to the test, so a stale one is tried too: it must change nothing.
  auto stale = wire::Make<wire::Reply>(1);
  stale.state = 99;
  wired.process()->Deliver(nullptr, stale);
  CHECK_FALSE(round->WaitAll(Deadline::InMs(50)));
}

TEST_CASE("a pause that is cancelled while it drains or moves ends with everybody running") {
  for (const Type hangs : {Type::kPrepare, Type::kCommit}) {
    Group group({20'000, 20'000, 2000});
    group.shim(1).On(hangs, Act::kHang);
    Course course({"7", "uid 1", "", 0});
    Transition transition(group.members, group.events, group.limits, 0, &course);
    bool began = false;
    std::thread canceller([&] {
      const bool drains = hangs == Type::kPrepare;
      began = group.shim(0).WaitFor(drains ? ProcessState::kPrepared : ProcessState::kPaused);
      course.Cancel("uid 0");
    });
    absl::Status status = transition.Prepare({.drain_timeout_ns = 20'000'000'000});
    if (hangs == Type::kCommit && status.ok()) status = transition.Commit(kToHost);
    canceller.join();
    CHECK(began);
    CHECK(status.code() == absl::StatusCode::kCancelled);
    CHECK(MetadataOf(status)["operation"] == "7");
    CHECK(group.AllAre(ProcessState::kRunning));
    CHECK_FALSE(MetadataOf(status).contains("paused_pids"));
  }
}

TEST_CASE("a pause that is cancelled before its bytes move moves none") {
  Group group;
  Course course;
  Transition transition(group.members, group.events, group.limits, 0, &course);
  REQUIRE(transition.Prepare(kGate).ok());
  course.Cancel("uid 0");
  CHECK(ReasonOf(transition.Commit(kToHost)) == "CANCELLED");
  CHECK(group.AllAre(ProcessState::kRunning));
  for (size_t i = 0; i < 3; ++i) CHECK(group.shim(i).Count(Type::kCommit) == 0);
}

TEST_CASE("what has moved by the time somebody cancels stays, and is no failure") {
  Group group;
  Course course;
  Transition transition(group.members, group.events, group.limits, 0, &course);
  REQUIRE(transition.Prepare(kGate).ok());
  REQUIRE(transition.Commit(kToHost).ok());
  course.Cancel("uid 0");
  CHECK(group.AllAre(ProcessState::kPaused));
  Transition back(group.members, group.events, group.limits, 0, &course);
  CHECK(back.Resume(false).ok());
}
