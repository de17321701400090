// Reservations: whose they are, how they end, and that the next daemon keeps them.
#include "daemon/reservations.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "common/deadline.h"
#include "daemon/identity.h"
#include "daemon/status.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;
using parkade::testing::TestDir;

namespace {

const Caller kOne{.uid = 1};
const Caller kOther{.uid = 2};
const Caller kRoot{.uid = 0, .sees_all = true};

Reservation Of(const Caller& caller, const std::string& id, Bytes bytes) {
  Reservation reservation;
  reservation.id = id;
  reservation.owner = caller.Name();
  reservation.label = "trainer";
  reservation.gpu_uuid = "g";
  reservation.bytes = bytes;
  return reservation;
}

absl::Status Add(Reservations& all, const Reservation& reservation) {
  auto asked = all.Ask(reservation.owner);
  if (asked.ok()) all.Add(std::move(*asked), reservation);
  return asked.status();
}

}  // namespace

TEST_CASE("a caller sees and releases his own, one who sees all everybody's") {
  Reservations all;
  REQUIRE(Add(all, Of(kOne, "a", 10)).ok());
  REQUIRE(Add(all, Of(kOther, "b", 20)).ok());
  CHECK(all.Kept() == ByGpu{{"g", 30}});
  CHECK(all.List(kOne).size() == 1);
  CHECK(all.List(kRoot).size() == 2);
  CHECK(all.Find(kOne, "a")->label == "trainer");
  for (const char* id : {"b", "none"}) {
    const auto refused = all.Release(kOne, id);
    CHECK(refused.code() == absl::StatusCode::kNotFound);
    CHECK(ReasonOf(refused) == "NO_RESERVATION");
    CHECK(MetadataOf(refused).at("reservation") == id);
  }
  CHECK(all.Release(kOne, "a").ok());
  CHECK(ReasonOf(all.Release(kOne, "a")) == "NO_RESERVATION");
  CHECK(all.Release(kRoot, "b").ok());
  CHECK(all.Kept().empty());
}

TEST_CASE("a reservation ends with its time, and with its process") {
  Reservations all;
  Reservation timed = Of(kOne, "timed", 10);
  timed.until_ns = MonotonicNs() + 500'000'000;
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  Reservation tied = Of(kOne, "tied", 5);
  tied.pid = child;
  tied.start_ticks = *StartTicks(child);
  Reservation stale = Of(kOne, "stale", 1);  // the number is another process's by now
  stale.pid = child;
  stale.start_ticks = tied.start_ticks + 1;
  for (const auto& each : {timed, tied, stale}) REQUIRE(Add(all, each).ok());
  const auto falls_to = [&](const ByGpu& bytes) {
    for (const Deadline by = Deadline::InMs(5000); !by.Passed(); sched_yield()) {
      if (all.Kept() == bytes) return true;
    }
    return false;
  };
  CHECK(falls_to({{"g", 15}}));
  CHECK(falls_to({{"g", 5}}));
  CHECK(all.List(kOne).size() == 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(falls_to({}));
  CHECK(ReasonOf(all.Find(kOne, "tied").status()) == "NO_RESERVATION");
}

TEST_CASE("a reservation stays while nobody can find out whether its process lives") {
  Reservations all;
  Reservation tied = Of(kOne, "tied", 5);
  tied.pid = getpid();
  tied.start_ticks = *StartTicks(getpid());
  REQUIRE(Add(all, tied).ok());
  rlimit before;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool readable = StartTicks(getpid()).has_value();
  bool kept = true;
  for (const Deadline by = Deadline::InMs(60); !by.Passed(); sched_yield()) {
    kept = kept && all.Kept() == ByGpu{{"g", 5}};
  }
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_FALSE(readable);
  CHECK(kept);
  CHECK(all.Find(kOne, "tied").ok());
}

TEST_CASE("a caller has at most 256 reservations") {
  Reservations all;
  for (int i = 0; i < 256; ++i) REQUIRE(Add(all, Of(kOne, std::to_string(i), 1)).ok());
  CHECK(ReasonOf(Add(all, Of(kOne, "more", 1))) == "TOO_MANY_RESERVATIONS");
  CHECK(Add(all, Of(kOther, "his", 1)).ok());
}

TEST_CASE("what a caller waits for counts among his 256, until it ends") {
  Reservations all;
  std::vector<Reservations::Asked> asked;
  for (int i = 0; i < 255; ++i) {
    auto one = all.Ask(kOne.Name());
    REQUIRE(one.ok());
    asked.push_back(std::move(*one));
  }
  REQUIRE(Add(all, Of(kOne, "one", 1)).ok());
  const auto refused = all.Ask(kOne.Name()).status();
  CHECK(ReasonOf(refused) == "TOO_MANY_RESERVATIONS");
  CHECK(MessageOf(refused).find("has 1 reservations already, and waits for 255") !=
        std::string::npos);
  CHECK(all.Ask(kOther.Name()).ok());
  asked.pop_back();
  // Its place becomes a reservation's, which makes no room.
  all.Add(std::move(asked.back()), Of(kOne, "two", 1));
  asked.pop_back();
  REQUIRE(Add(all, Of(kOne, "three", 1)).ok());
  CHECK(ReasonOf(all.Ask(kOne.Name()).status()) == "TOO_MANY_RESERVATIONS");
  asked.clear();
  CHECK(all.Kept() == ByGpu{{"g", 3}});
  CHECK(all.Ask(kOne.Name()).ok());
}

TEST_CASE("the next daemon keeps what has not ended") {
  const TestDir dir;
  Reservation lasting = Of(kOne, "lasting", 7);
  lasting.until_ns = MonotonicNs() + 3'600'000'000'000;
  lasting.pid = getpid();
  lasting.start_ticks = *StartTicks(getpid());
  {
    Journal journal(dir.path(), "boot");
    Reservations all(&journal);
    REQUIRE(Add(all, lasting).ok());
    REQUIRE(Add(all, Of(kOne, "released", 1)).ok());
    Reservation over = Of(kOne, "over", 2);
    over.until_ns = 1;
    REQUIRE(Add(all, over).ok());
    REQUIRE(all.Release(kOne, "released").ok());
    CHECK(all.Kept() == ByGpu{{"g", 7}});
  }
  Journal journal(dir.path(), "boot");
  CHECK(journal.found().reservations.size() == 1);
  Reservations all(&journal);
  const auto found = all.Find(kOne, "lasting");
  REQUIRE(found.ok());
  CHECK(found->owner == "uid 1");
  CHECK(found->label == "trainer");
  CHECK(found->gpu_uuid == "g");
  CHECK(found->bytes == 7);
  CHECK(found->until_ns == lasting.until_ns);
  CHECK(found->pid == getpid());
}
