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
  REQUIRE(back.Resume({}).ok());
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
  const auto status = back.Resume({});
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

namespace {

// Engines of 1 MiB of weights and 2 MiB of cache each.
Group Engines(Transition::Limits limits = {2000, 2000, 2000}) {
  return Group(limits, {{1_MiB, "weights"}, {2_MiB, "kv_cache"}});
}

void PauseAll(Group& group) {
  auto pause = group.Begin();
  REQUIRE(pause.Prepare(kGate).ok());
  REQUIRE(pause.Commit(kToHost).ok());
}

// As for the next order: what was found out for the last one is forgotten.
void Renew(Group& group) {
  for (Member& m : group.members) {
    Member fresh;
    fresh.process = m.process;
    fresh.grant = m.grant;
    fresh.was_out = IsOut(m.process->State());
    m = std::move(fresh);
  }
}

// What a process has in HBM, by its ledger.
Bytes InHbm(const Group& group, size_t i) {
  return group.members[i].process->Ledger()->header.devices[0].resident_bytes;
}

}  // namespace

TEST_CASE("tags come back in all of a group, which stays paused with its gates open") {
  Group group = Engines();
  PauseAll(group);
  Renew(group);
  REQUIRE(group.Begin().Resume({.tags = {"weights"}}).ok());
  for (size_t i = 0; i < 3; ++i) {
    CHECK(InHbm(group, i) == 1_MiB);
    const auto view = group.members[i].process->View();
    CHECK(view.state == ProcessState::kPaused);
    CHECK(view.ledger->gate_mode == uint64_t(wire::GateMode::kOpen));
  }
  Renew(group);
  REQUIRE(group.Begin().Resume({.tags = {"kv_cache"}}).ok());
  CHECK(group.AllAre(ProcessState::kRunning));
}

TEST_CASE("a failed resume of tags names who has none of them, and is tried again with those") {
  Group group = Engines();
  PauseAll(group);
  Renew(group);
  group.shim(1).On(Type::kResume, Act::kRefuse);
  auto back = group.Begin();
  const auto status = back.Resume({.tags = {"weights"}});
  CHECK_FALSE(status.ok());
  CHECK(MetadataOf(status)["paused_pids"] == "101");
  group.shim(1).On(Type::kResume, Act::kWork);
  REQUIRE(back.Resume({.tags = {"weights"}}).ok());
  for (size_t i = 0; i < 3; ++i) {
    CHECK(InHbm(group, i) == 1_MiB);
    CHECK(group.shim(i).Count(Type::kResume) == (i == 1 ? 2 : 1));
  }
}

TEST_CASE("a further pause that fails in one leaves all of a group paused in part, as before") {
  for (const Act fault : {Act::kRefuse, Act::kDisconnect}) {
    for (const Type type : {Type::kPrepare, Type::kCommit}) {
      INFO("fault " << int(fault) << " at message " << int(type));
      Group group = Engines({300, 300, 300});
      PauseAll(group);
      Renew(group);
      REQUIRE(group.Begin().Resume({.tags = {"weights"}}).ok());
      Renew(group);
      group.shim(1).On(type, fault);
      auto further = group.Begin();
      absl::Status status = further.Prepare(kGate);
      if (status.ok()) status = further.Commit(kToHost);
      CHECK_FALSE(status.ok());
      CHECK_FALSE(MetadataOf(status).contains("paused_pids"));
      for (size_t i = 0; i < 3; ++i) {
        INFO("process " << i);
        CHECK(group.shim(i).WaitFor(ProcessState::kPaused));
        CHECK(InHbm(group, i) == 1_MiB);
        CHECK(group.members[i].process->View().ledger->gate_mode ==
              uint64_t(wire::GateMode::kOpen));
      }
    }
  }
}

TEST_CASE("a further pause that fails before anything moves takes nothing back of the last pause") {
  Group group = Engines({300, 300, 300});
  auto pause = group.Begin();
  REQUIRE(pause.Prepare(kGate).ok());
  REQUIRE(pause.Commit({{wire::Policy::kHost, {{"weights", wire::Policy::kKeep}}}, 256_MiB}).ok());
  for (const Act fault : {Act::kRefuse, Act::kWork}) {
    Renew(group);
    group.shim(1).On(Type::kPrepare, fault);
    auto further = group.Begin();
    const bool ready = further.Prepare(kGate).ok();
    CHECK(ready == (fault == Act::kWork));
    if (ready) further.Abort();
    for (size_t i = 0; i < 3; ++i) {
      INFO("process " << i);
      CHECK(group.shim(i).WaitFor(ProcessState::kPaused));
      CHECK(InHbm(group, i) == 1_MiB);
      CHECK(group.shim(i).Count(Type::kResume) == 0);
    }
  }
}

TEST_CASE("a further pause of some, beside the first of others, is undone for each as it was") {
  Group group = Engines();
  std::vector<Member> first;
  first.push_back(std::move(group.members[0]));
  Transition alone(first, group.events, group.limits);
  REQUIRE(alone.Prepare(kGate).ok());
  REQUIRE(alone.Commit(kToHost).ok());
  REQUIRE(alone.Resume({.tags = {"weights"}}).ok());
  group.members[0] = std::move(first[0]);
  Renew(group);
  group.shim(2).On(Type::kCommit, Act::kRefuse);
  auto both = group.Begin();
  REQUIRE(both.Prepare(kGate).ok());
  CHECK(ReasonOf(both.Commit(kToHost)) == "BUSY");
  CHECK(group.shim(0).state() == ProcessState::kPaused);
  CHECK(InHbm(group, 0) == 1_MiB);
  CHECK(group.shim(1).WaitFor(ProcessState::kRunning));
  CHECK(group.shim(2).WaitFor(ProcessState::kRunning));
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
  CHECK(back.Resume({}).ok());
}
