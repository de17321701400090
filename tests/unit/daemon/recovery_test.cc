// Recovery alone: processes of an earlier daemon that live and never come back.
#include "daemon/recovery.h"

#include <sched.h>

#include <catch2/catch.hpp>

#include "tests/unit/daemon/scratch_parts.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;
using parkade::testing::Self;
using parkade::testing::TestDir;

TEST_CASE("a process that lives and does not come back is let go in the end") {
  const TestDir dir;
  const Identity self = Self();
  {
    Journal before(dir.path(), BootId());
    BegunOperation pause;
    pause.parties.push_back({self, false});
    before.Begin(pause);
  }
  {
    Journal journal(dir.path(), BootId());
    REQUIRE(journal.found().interrupted.size() == 1);
    Events events;
    Registry registry;
    const Gpus gpus;
    Scratch scratch({{dir.path()}, {}}, dir.path());
    Budgets budgets(1_GiB, registry);
    HostBudget budget(budgets);
    Reservations reservations;
    GpuAccount account([](const auto&) { return GpuAccount::ByGpu{}; });
    Returning returning;
    NodeState node(
        {registry, events, gpus, scratch, budget, account, journal, returning, reservations}, {});
    const auto process = std::make_shared<Process>(self, Fd());
    registry.Add(process);
    Recovery recovery({registry, events, node, journal, returning},
                      {.come_back_ms = 20, .give_up_ms = 200});
    CHECK_FALSE(registry.Take({process}).ok());
    bool is_free = false;
    for (const Deadline by = Deadline::InMs(5000); !is_free && !by.Passed(); sched_yield()) {
      is_free = registry.Take({process}).ok();
    }
    CHECK(is_free);
    recovery.Stop();
  }
  // Nor does the next daemon wait for it again.
  CHECK(Journal(dir.path(), BootId()).found().interrupted.empty());
}

TEST_CASE("who takes turns, and whose pause is for one, is remembered") {
  RememberedProcess process;
  process.introduction.takes_turns = true;
  process.state = wire::ProcessState::kPaused;
  process.for_turn = true;
  const auto found = UnpackProcess(Pack(process));
  REQUIRE(found);
  CHECK(found->introduction.takes_turns);
  CHECK(found->for_turn);
  CHECK_FALSE(UnpackProcess(Pack(RememberedProcess{}))->for_turn);
}
