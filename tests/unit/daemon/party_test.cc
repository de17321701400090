// Parties: which processes take turns as one, and what may be done with them.
#include "daemon/party.h"

#include "tests/unit/daemon/wired_group.h"

using namespace parkade;
using namespace parkade::daemon;
using testing::FakeShimSettings;
using testing::Wired;
using wire::ProcessState;
using Standing = Party::Standing;

namespace {

const std::string kUuid = "GPU-01020304-0506-0708-090a-0b0c0d0e0f10";

FakeShimSettings Taking(const std::string& job = "", int32_t rank = -1) {
  return {.allocations = {{6_MiB}}, .job = job, .rank = rank, .takes_turns = true};
}

// Pauses it with an epoch, for the turn of others or because somebody wants it.
void Pause(Wired& wired, bool for_turn, uint64_t epoch = 0) {
  Events events;
  std::vector<Member> members(1);
  members[0].process = wired.process();
  members[0].grant.host = 6_MiB;
  wired.process()->SetForTurn(for_turn);
  Transition pause(members, events, {2000, 2000, 2000}, epoch);
  REQUIRE(pause.Prepare({}).ok());
  REQUIRE(pause.Commit(testing::kToHost).ok());
}

Standing StandingOf(const Wired& wired, const std::set<int>& reserved = {}) {
  const auto parties = PartiesOf({wired.process()}, reserved);
  REQUIRE(parties.size() == 1);
  return parties[0].standing;
}

}  // namespace

TEST_CASE("a process without rank is a party alone, and one that takes no turns is none") {
  const Wired a(100, Taking("job")), b(101, Taking("job")), other(102, {.allocations = {{1_MiB}}});
  const auto parties = PartiesOf({a.process(), b.process(), other.process()}, {});
  REQUIRE(parties.size() == 2);
  for (const Party& party : parties) {
    CHECK(party.processes.size() == 1);
    CHECK(party.standing == Standing::kIn);
    CHECK(party.holds == ByGpu{{kUuid, 6_MiB}});
    CHECK(party.lacks.empty());
  }
}

TEST_CASE("the ranks of a job are one party") {
  const Wired a(100, Taking("job", 0)), b(101, Taking("job", 1)), other(102, Taking("second", 0));
  const auto parties = PartiesOf({a.process(), b.process(), other.process()}, {});
  REQUIRE(parties.size() == 2);
  const Party& job = parties[0].processes.size() == 2 ? parties[0] : parties[1];
  CHECK(job.Pids() == std::vector<int>{100, 101});
  CHECK(job.holds == ByGpu{{kUuid, 12_MiB}});
}

TEST_CASE("a job with a rank that takes no turns takes them with nobody") {
  FakeShimSettings silent = Taking("job", 1);
  silent.takes_turns = false;
  const Wired a(100, Taking("job", 0)), b(101, silent);
  const auto parties = PartiesOf({a.process(), b.process()}, {});
  REQUIRE(parties.size() == 1);
  CHECK(parties[0].standing == Standing::kAlone);
}

TEST_CASE("who is out for others' turn lacks its memory; who was paused is held") {
  Wired out(100, Taking()), paused(101, Taking());
  Pause(out, true);
  Pause(paused, false);
  CHECK(StandingOf(paused) == Standing::kHeld);
  const auto parties = PartiesOf({out.process()}, {});
  CHECK(parties[0].standing == Standing::kOut);
  CHECK(parties[0].lacks == ByGpu{{kUuid, 6_MiB}});
  CHECK(parties[0].holds.empty());
}

TEST_CASE("an orchestrator's epoch and a reservation keep a process out of turns") {
  Wired led(100, Taking());
  const Wired reserved(101, Taking());
  Pause(led, true, 3);
  CHECK(StandingOf(led) == Standing::kAlone);
  CHECK(StandingOf(reserved, {101}) == Standing::kAlone);
  CHECK(StandingOf(reserved, {100}) == Standing::kIn);
}

TEST_CASE("one that is not connected can do nothing now, and what it was paused for is known") {
  Wired out(100, Taking());
  Pause(out, true);
  out.shim().Disconnect();
  for (const Deadline by = Deadline::InMs(5000); out.process()->connected() && !by.Passed();) {
    sched_yield();
  }
  CHECK(StandingOf(out) == Standing::kAway);
  CHECK(out.process()->View().OutForTurn());
}
