// Gates that close in the middle of collectives: launches are let through until all ranks drain.
#include "daemon/preparation.h"

#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "daemon/status.h"
#include "tests/unit/daemon/wired_group.h"

using namespace parkade;
using namespace parkade::daemon;
using testing::Act;
using testing::FakeJob;
using testing::kToHost;
using testing::WiredGroup;
using wire::ProcessState;
using wire::Type;

namespace {

constexpr Transition::Limits kLimits{2000, 2000, 2000};
constexpr int kOwn = FakeJob::kOwnWork;

GateOrder Within(uint64_t ms) { return {.drain_timeout_ns = ms * 1'000'000}; }

// Four ranks, two by two: communicators 0 and 1 are tensor-parallel pairs, 2 and 3 data-parallel
// pairs, 4 is all of them. Every rank has work of its own, of another length, between them.
FakeJob FourRanks() {
  const auto program = [](int tensor, int data, int own) {
    FakeJob::Program launches;
    for (int layer = 0; layer < 3; ++layer) {
      launches.insert(launches.end(), size_t(own), kOwn);
      launches.push_back(tensor);
    }
    launches.insert(launches.end(), {data, kOwn, 4});
    return launches;
  };
  return FakeJob({program(0, 2, 1), program(0, 3, 2), program(1, 2, 0), program(1, 3, 3)},
                 {{0, {0, 1}}, {1, {2, 3}}, {2, {0, 2}}, {3, {1, 3}}, {4, {0, 1, 2, 3}}});
}

uint64_t LetThrough(const WiredGroup& group) {
  uint64_t sum = 0;
  for (const Member& m : group.members) sum += m.prepared.stats.let_through;
  return sum;
}

}  // namespace

TEST_CASE("the peer of a rank inside a collective is let through, and then all have drained") {
  FakeJob job({{0}, {kOwn, kOwn, 0}}, {{0, {0, 1}}});
  job.Launch(0, 1);  // waits for rank 1, which is two launches away
  WiredGroup group(kLimits, 2, &job);
  auto transition = group.Begin();
  REQUIRE(transition.Prepare(Within(5000)).ok());
  CHECK(group.AllAre(ProcessState::kPrepared));
  CHECK(job.Drained(0));
  CHECK(job.Drained(1));
  // Three calls were needed. On a busy machine the answers may come so late that more went through,
  // and then some of the other's too; each was counted where it was made.
  CHECK(job.launched(1) >= 3);
  CHECK(group.members[1].prepared.stats.let_through == job.launched(1));
  CHECK(group.members[0].prepared.stats.let_through == job.launched(0) - 1);
  REQUIRE(transition.Commit(kToHost).ok());
  CHECK(group.AllAre(ProcessState::kPaused));
}

TEST_CASE("a rank that is far behind is let through more and more calls at a time") {
  FakeJob::Program behind(500, kOwn);
  behind.push_back(0);
  FakeJob job({{0}, behind}, {{0, {0, 1}}});
  job.Launch(0, 1);
  WiredGroup group(kLimits, 2, &job);
  auto transition = group.Begin();
  REQUIRE(transition.Prepare(Within(20'000)).ok());
  CHECK(group.AllAre(ProcessState::kPrepared));
  CHECK(job.Drained(0));
  CHECK(job.Drained(1));
  CHECK(job.launched(1) >= 501);
  // 1, 2, 4, ... 64, and 64 again: 14 turns; a busy machine adds some.
  CHECK(group.shim(1).Count(Type::kLetThrough) < 50);
}

TEST_CASE("ranks that wait for each other in a circle let calls through while they drain") {
  // Each is inside a collective on a stream of its own, and the other's launch comes next.
  FakeJob job({{0, kOwn, 1}, {1, kOwn, 0}}, {{0, {0, 1}}, {1, {0, 1}}}, FakeJob::Streams::kOneEach);
  job.Launch(0, 1);
  job.Launch(1, 1);
  REQUIRE_FALSE(job.Drained(0));
  REQUIRE_FALSE(job.Drained(1));
  WiredGroup group(kLimits, 2, &job);
  auto transition = group.Begin();
  REQUIRE(transition.Prepare(Within(10'000)).ok());
  CHECK(group.AllAre(ProcessState::kPrepared));
  CHECK(job.Drained(0));
  CHECK(job.Drained(1));
  REQUIRE(transition.Commit(kToHost).ok());
}

TEST_CASE("a process alone is let nothing through, however long it drains") {
  FakeJob job({{0, kOwn}, {0}}, {{0, {0, 1}}});
  job.Launch(0, 1);
  WiredGroup group(kLimits, 1, &job);
  CHECK(ReasonOf(group.Begin().Prepare(Within(300))) == "BUSY");
  CHECK(job.launched(0) == 1);
  CHECK(group.shim(0).Count(Type::kLetThrough) == 0);
}

TEST_CASE("ranks that have all drained are let nothing through") {
  FakeJob job = FourRanks();
  WiredGroup group(kLimits, 4, &job);
  auto transition = group.Begin();
  REQUIRE(transition.Prepare(Within(5000)).ok());
  for (size_t i = 0; i < 4; ++i) CHECK(group.shim(i).Count(Type::kLetThrough) == 0);
}

TEST_CASE("tensor- and data-parallel ranks stopped anywhere drain within their timeout") {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    FakeJob job = FourRanks();
    for (size_t rank = 0; rank < 4; ++rank) job.Launch(rank, random() % 40);
    WiredGroup group(kLimits, 4, &job);
    auto transition = group.Begin();
    const auto prepared = transition.Prepare(Within(20'000));
    INFO(round << ": " << MessageOf(prepared));
    REQUIRE(prepared.ok());
    CHECK(group.AllAre(ProcessState::kPrepared));
    for (size_t rank = 0; rank < 4; ++rank) CHECK(job.Drained(rank));
    transition.Abort();
    CHECK(group.AllAre(ProcessState::kRunning));
  }
}

TEST_CASE("a rank that never drains is named with its device, and every gate opens") {
  FakeJob job({{0}, {kOwn, 0}, {kOwn}}, {{0, {0, 1}}});
  job.Launch(0, 1);
  job.StopLaunching(1);  // its thread is elsewhere, and never comes to the collective
  WiredGroup group(kLimits, 3, &job);
  const auto status = group.Begin().Prepare(Within(300));
  CHECK(ReasonOf(status) == "BUSY");
  CHECK(MetadataOf(status)["pid"] == "100");
  CHECK(MetadataOf(status)["rank"] == "0");
  CHECK(MetadataOf(status)["device"] == "0");
  CHECK(MessageOf(status).find("not drained: rank 0 (process 100)") != std::string::npos);
  CHECK(group.AllAre(ProcessState::kRunning));
  CHECK(group.shim(1).Count(Type::kLetThrough) > 1);
  CHECK(LetThrough(group) > 0);  // of rank 2, which had work of its own to go on with
  for (size_t i = 0; i < 3; ++i) CHECK(group.shim(i).Count(Type::kCommit) == 0);
}

TEST_CASE("a peer that dies while it is let through ends the wait, and the others run") {
  FakeJob job({{0}, {kOwn, kOwn, 0}, {kOwn}}, {{0, {0, 1}}});
  job.Launch(0, 1);
  WiredGroup group(kLimits, 3, &job);
  group.shim(1).On(Type::kLetThrough, Act::kDisconnect);
  const auto status = group.Begin().Prepare(Within(60'000));
  CHECK(ReasonOf(status) == "SHIM_DISCONNECTED");
  CHECK(MetadataOf(status)["pid"] == "101");
  CHECK(group.AllAre(ProcessState::kRunning));
}

TEST_CASE("a failed LetThrough fails the group") {
  FakeJob job({{0}, {kOwn, 0}}, {{0, {0, 1}}});
  job.Launch(0, 1);
  WiredGroup group(kLimits, 2, &job);
  group.shim(1).On(Type::kLetThrough, Act::kRefuse);
  const auto status = group.Begin().Prepare(Within(60'000));
  CHECK(ReasonOf(status) == "BUSY");
  CHECK(group.AllAre(ProcessState::kRunning));
}

TEST_CASE("a rank that ends while the others wait for it ends the wait") {
  FakeJob job({{0}, {0}, {0}}, {{0, {0, 1, 2}}});
  job.Launch(0, 1);
  job.StopLaunching(1);
  WiredGroup group(kLimits, 3, &job);
  std::thread end([&] {
    while (group.shim(1).Count(Type::kLetThrough) == 0) sched_yield();
    group.members[1].process->End();
  });
  const auto status = group.Begin().Prepare(Within(60'000));
  end.join();
  CHECK(ReasonOf(status) == "PROCESS_ENDED");
  CHECK(group.shim(0).WaitFor(ProcessState::kRunning));
  CHECK(group.shim(2).WaitFor(ProcessState::kRunning));
}

TEST_CASE("an abort while launches are let through opens every gate") {
  FakeJob job({{0}, {kOwn, kOwn, kOwn, 0}, {kOwn, 0}}, {{0, {0, 1, 2}}});
  job.Launch(0, 1);
  job.StopLaunching(2);
  WiredGroup group(kLimits, 3, &job);
  // What an abort is to the shims: a failure of one of them while the others are in the middle.
  std::thread fail([&] {
    while (group.shim(1).Count(Type::kLetThrough) < 3) sched_yield();
    group.shim(2).On(Type::kLetThrough, Act::kRefuse);
  });
  const auto status = group.Begin().Prepare(Within(60'000));
  fail.join();
  CHECK(ReasonOf(status) == "BUSY");
  CHECK(group.AllAre(ProcessState::kRunning));
  for (size_t i = 0; i < 3; ++i) CHECK(group.shim(i).Count(Type::kAbort) == 1);
}

TEST_CASE("what is asked of the gate and the caller's epoch reach every shim") {
  WiredGroup group;
  Transition transition(group.members, group.events, group.limits, 12);
  GateOrder order = Within(1000);
  order.mode = wire::GateMode::kOpen;
  order.work = wire::GatedWork::kFail;
  order.allocations = wire::GatedAllocations::kPass;
  order.exported = wire::OnExported::kRefuse;
  REQUIRE(transition.Prepare(order).ok());
  for (size_t i = 0; i < 3; ++i) {
    const wire::Prepare prepare = group.shim(i).last_prepare();
    CHECK(prepare.gate_mode == uint32_t(wire::GateMode::kOpen));
    CHECK(prepare.gated_work == uint32_t(wire::GatedWork::kFail));
    CHECK(prepare.gated_allocations == uint32_t(wire::GatedAllocations::kPass));
    CHECK(prepare.on_exported == uint32_t(wire::OnExported::kRefuse));
    CHECK(prepare.epoch == 12);
    CHECK(group.members[i].process->View().ledger->epoch == 12);
  }
}
