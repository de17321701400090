// How a store's steps go to the disk is decided by what they took.
#include "shim/stream/schedule_trial.h"

#include <catch2/catch.hpp>

namespace parkade::shim {
namespace {

// Makes steps that take `at_once` and `by_turns`, until it is decided; how many that took.
uint64_t Decide(ScheduleTrial& trial, uint64_t at_once, uint64_t by_turns) {
  uint64_t step = 0, now = 1000;
  for (; !trial.by_turns() && step < 100; ++step) {
    const bool turns = trial.Begins(step, now);
    // The first is slow, whatever it is.
    now += step == 0 ? 1'000'000 : turns ? by_turns : at_once;
    trial.Ends(step, now);
  }
  return step;
}

TEST_CASE("three steps of each kind decide, and the first of all does not count") {
  ScheduleTrial slower_by_turns, faster_by_turns;
  CHECK(Decide(slower_by_turns, 10, 11) == 7);
  CHECK(slower_by_turns.by_turns() == false);
  CHECK(Decide(faster_by_turns, 10, 9) == 7);
  CHECK(faster_by_turns.by_turns() == true);
  CHECK(faster_by_turns.Begins(8, 0));
  faster_by_turns.Ends(8, 1'000'000);
  CHECK(faster_by_turns.by_turns() == true);
}

TEST_CASE("steps that never end are left out, and one may begin before the last has ended") {
  ScheduleTrial trial;
  uint64_t ended = 0;
  for (uint64_t step = 0; !trial.by_turns() && step < 100; ++step) {
    trial.Begins(step, 10 * step);
    if (step % 3 == 2) continue;  // given up
    if (step > 0 && (step - 1) % 3 != 2) trial.Ends(step - 1, 10 * step + 1), ++ended;
  }
  CHECK(trial.by_turns().has_value());
  CHECK(ended >= 6);
}

TEST_CASE("the same step once more counts from where it began anew") {
  ScheduleTrial trial;
  trial.Begins(0, 0);
  trial.Ends(0, 1);
  for (uint64_t step = 1; !trial.by_turns() && step < 100; ++step) {
    trial.Begins(step, 0);  // and is given up
    const bool turns = trial.Begins(step, 1'000'000);
    trial.Ends(step, 1'000'000 + (turns ? 20 : 30));
    trial.Begins(1000, 0);  // the other kind's turn
  }
  CHECK(trial.by_turns() == true);
}

}  // namespace
}  // namespace parkade::shim
