// TurnAsker and TurnWaits: what is said to the daemon, once each, and what a refusal ends.
#include "shim/agent/turn_asker.h"

#include <catch2/catch.hpp>

using namespace parkade;
using namespace parkade::shim;

namespace {

constexpr uint64_t kMs = 1'000'000;

struct Asking {
  explicit Asking(bool takes_turns = true) : waits(takes_turns) {
    REQUIRE(waits.Init().ok());
    asker.Joined();
  }
  wire::NoTurn No(uint64_t number, uint32_t again_ms = 0) {
    auto no = wire::Make<wire::NoTurn>(number);
    no.again_ms = again_ms;
    return no;
  }

  TurnWaits waits;
  TurnAsker asker{waits};
};

}  // namespace

TEST_CASE("threads at the gate are told of once, and again when they wait no longer") {
  Asking a;
  CHECK_FALSE(a.asker.Due(false, 0));
  const auto asked = a.asker.Due(true, 0);
  REQUIRE(asked);
  CHECK(asked->work == 1);
  CHECK_FALSE(a.asker.Due(true, 0));
  const auto over = a.asker.Due(false, 0);
  REQUIRE(over);
  CHECK(over->work == 0);
  CHECK(over->header.op_id > asked->header.op_id);
}

TEST_CASE("allocations are summed by device, in pages, for as long as they wait") {
  Asking a;
  {
    const TurnWaits::Wait one(a.waits, 1, 5_MiB);
    TurnWaits::Wait two(a.waits, 1, 2_MiB);
    auto asked = a.asker.Due(false, 0);
    REQUIRE(asked);
    CHECK(asked->bytes[0] == 0);
    CHECK(asked->bytes[1] == 8_MiB);
    two.NotEnough(1_MiB);  // that there is less than it wants is known
    CHECK_FALSE(a.asker.Due(false, 0));
    two.NotEnough(7_MiB);
    asked = a.asker.Due(false, 0);
    REQUIRE(asked);
    CHECK(asked->bytes[1] == 14_MiB);
  }
  const auto over = a.asker.Due(false, 0);
  REQUIRE(over);
  CHECK(over->bytes[1] == 0);
}

TEST_CASE("a refusal ends the wait of those that were asked for, and of no others") {
  Asking a;
  const TurnWaits::Wait first(a.waits, 0, 2_MiB);
  const auto asked = a.asker.Due(false, 0);
  REQUIRE(asked);
  const TurnWaits::Wait second(a.waits, 0, 4_MiB);
  CHECK(first.goes_on());
  CHECK(a.asker.Refused(a.No(asked->header.op_id), 0));
  CHECK_FALSE(first.goes_on());
  CHECK(second.goes_on());
  const auto rest = a.asker.Due(false, 0);
  REQUIRE(rest);
  CHECK(rest->bytes[0] == 4_MiB);
}

TEST_CASE("work that was refused is not asked for again in this pause, or not before its time") {
  Asking a;
  auto asked = a.asker.Due(true, 0);
  REQUIRE(asked);
  CHECK_FALSE(a.asker.Refused(a.No(asked->header.op_id), 0));
  const auto nothing = a.asker.Due(true, 1'000'000 * kMs);
  REQUIRE(nothing);  // it says that it waits for nothing
  CHECK(nothing->work == 0);
  CHECK_FALSE(a.asker.Due(true, 2'000'000 * kMs));
  CHECK_FALSE(a.asker.Due(false, 2'000'000 * kMs));
  asked = a.asker.Due(true, 2'000'000 * kMs);  // another pause
  REQUIRE(asked);
  CHECK(asked->work == 1);
  CHECK_FALSE(a.asker.Refused(a.No(asked->header.op_id, 500), 2'000'000 * kMs));
  REQUIRE(a.asker.Due(true, 2'000'100 * kMs));
  CHECK_FALSE(a.asker.Due(true, 2'000'400 * kMs));
  asked = a.asker.Due(true, 2'000'500 * kMs);
  REQUIRE(asked);
  CHECK(asked->work == 1);
}

TEST_CASE("an older refusal does not end what was said since") {
  Asking a;
  const auto old = a.asker.Due(true, 0);
  REQUIRE(old);
  REQUIRE(a.asker.Due(false, 0));
  REQUIRE(a.asker.Due(true, 0));
  CHECK_FALSE(a.asker.Refused(a.No(old->header.op_id), 0));
  CHECK_FALSE(a.asker.Due(true, 0));
}

TEST_CASE("another daemon hears all of it again") {
  Asking a;
  const TurnWaits::Wait wait(a.waits, 0, 2_MiB);
  REQUIRE(a.asker.Due(true, 0));
  a.asker.Left();
  CHECK(wait.goes_on());  // for a while
  a.asker.Joined();
  const auto again = a.asker.Due(true, 0);
  REQUIRE(again);
  CHECK(again->work == 1);
  CHECK(again->bytes[0] == 2_MiB);
}

TEST_CASE("a process that takes no turns says nothing, and no allocation waits for one") {
  Asking a(false);
  const TurnWaits::Wait wait(a.waits, 0, 2_MiB);
  CHECK_FALSE(wait.goes_on());
  CHECK_FALSE(a.asker.Due(true, 0));
}
