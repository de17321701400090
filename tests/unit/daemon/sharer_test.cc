// The sharer with fake shims on one GPU of 10 MiB: who is paused for whom, when, and what a failure
// leaves behind.
#include "daemon/sharer.h"

#include <sched.h>

#include <functional>

#include "common/text.h"
#include "daemon/movement.h"
#include "daemon/status.h"
#include "tests/unit/daemon/test_dir.h"
#include "tests/unit/daemon/wired_group.h"

using namespace parkade;
using namespace parkade::daemon;
using testing::Act;
using testing::FakeShimSettings;
using testing::TestDir;
using testing::Wired;
using wire::ProcessState;
using wire::Type;

namespace {

const std::string kUuid = "GPU-01020304-0506-0708-090a-0b0c0d0e0f10";
constexpr Bytes kGpu = 10_MiB;
constexpr uint64_t kQuantumMs = 300;

struct Share {
  explicit Share(Bytes host_budget = 1_GiB, uint64_t hope_ms = 100)
      : budgets(host_budget, registry),
        sharer({registry, node, operations, account, reservations}, kQuantumMs * 1'000'000,
               hope_ms * 1'000'000) {}
  ~Share() {
    sharer.Stop();
    operations.Finish();
  }

  Wired& Add(int pid, Bytes bytes = 6_MiB, bool takes_turns = true) {
    all.push_back(std::make_unique<Wired>(
        pid, FakeShimSettings{.allocations = {{bytes}}, .takes_turns = takes_turns}));
    registry.Add(all.back()->process());
    return *all.back();
  }
  absl::Status Pause(const Wired& wired, bool for_turn, uint64_t epoch = 0) {
    PauseOrder order;
    order.selector.pids = {wired.process()->pid()};
    order.policies.all = wire::Policy::kHost;
    order.for_turn = for_turn;
    order.epoch = epoch;
    Course course;
    return node.Pause({.sees_all = true}, order, course).status();
  }
  void Ask(const Wired& wired, bool work, Bytes bytes = 0) {
    auto ask = wire::Make<wire::AskTurn>(++number);
    ask.work = work ? 1 : 0;
    ask.bytes[0] = bytes;
    sharer.Asks(wired.process(), ask);
  }
  // The reason of the NoTurn that comes.
  std::string Refusal(Wired& wired) {
    for (const Deadline by = Deadline::InMs(5000); !by.Passed(); sched_yield()) {
      if (const auto no = wired.shim().no_turn()) return std::string(ReadText(no->reason));
    }
    return "none came";
  }

  uint64_t number = 0;
  TestDir dir;
  Registry registry;
  Events events;
  const Gpus gpus;
  Scratch scratch{{{}, {}}, dir.path()};
  Budgets budgets;
  HostBudget budget{budgets};
  Reservations reservations;
  GpuAccount account{[this](const auto&) {
    const ByGpu used = ResidentOf(registry.All());
    const auto at = used.find(kUuid);
    const Bytes bytes = at == used.end() ? 0 : at->second;
    return ByGpu{{kUuid, bytes > kGpu ? 0 : kGpu - bytes}};
  }};
  Journal journal{dir.path(), BootId()};
  Returning returning;
  NodeState node{
      {registry, events, gpus, scratch, budget, account, journal, returning, reservations},
      {2000, 2000, 2000}};
  Operations operations{&journal};
  std::vector<std::unique_ptr<Wired>> all;
  Sharer sharer;
};

bool Comes(const std::function<bool()>& what) {
  for (const Deadline by = Deadline::InMs(5000); !by.Passed(); sched_yield()) {
    if (what()) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("work at a gate has another paused, when that has had its quantum, and is resumed") {
  Share share;
  Wired &a = share.Add(100), &b = share.Add(101);
  REQUIRE(share.Pause(b, true).ok());
  a.process()->ComesIn();
  const uint64_t since_ns = a.process()->came_in_ns();
  share.Ask(b, true);
  REQUIRE(a.shim().WaitFor(ProcessState::kPaused));
  CHECK(MonotonicNs() - since_ns >= kQuantumMs * 1'000'000);
  REQUIRE(b.shim().WaitFor(ProcessState::kRunning));
  CHECK(a.process()->View().OutForTurn());
  CHECK_FALSE(b.process()->View().OutForTurn());
  // And back, as soon as the other has had its own.
  share.Ask(b, false);
  share.Ask(a, true);
  REQUIRE(b.shim().WaitFor(ProcessState::kPaused));
  REQUIRE(a.shim().WaitFor(ProcessState::kRunning));
  // Ordinary operations of the user: out and in, twice.
  CHECK(Comes([&] {
    size_t done = 0;
    for (const OperationView& view : share.operations.List({.uid = 0})) {
      done += view.answer && view.answer->ok() && view.origin.request_id.starts_with("wake-");
    }
    return done == 4;
  }));
}

TEST_CASE("an allocation without room has another paused for it") {
  Share share;
  Wired &a = share.Add(100), &b = share.Add(101, 2_MiB);
  share.Ask(b, false, 6_MiB);
  REQUIRE(a.shim().WaitFor(ProcessState::kPaused));
  CHECK(b.shim().state() == ProcessState::kRunning);
  CHECK(b.shim().Count(Type::kPrepare) == 0);
  // The room is its own until it has taken it, or wants it no more.
  share.Ask(a, true);
  REQUIRE(Comes([&] { return a.process()->View().asks_turn; }));
  CHECK(a.shim().state() == ProcessState::kPaused);
  share.Ask(b, false);
  REQUIRE(a.shim().WaitFor(ProcessState::kRunning));
  CHECK_FALSE(a.shim().no_turn());
}

TEST_CASE("who is known only a moment after the asker is paused for it all the same") {
  Share share(1_GiB, 60'000);
  Wired& b = share.Add(101, 2_MiB);
  share.Ask(b, false, 9_MiB);
  REQUIRE(Comes([&] { return b.process()->View().asks_turn; }));
  Wired& a = share.Add(100);
  share.Ask(b, false, 6_MiB);
  REQUIRE(a.shim().WaitFor(ProcessState::kPaused));
  CHECK_FALSE(b.shim().no_turn());
}

TEST_CASE("who is out comes back at once where there is room") {
  Share share;
  Wired &a = share.Add(100, 2_MiB), &b = share.Add(101);
  REQUIRE(share.Pause(b, true).ok());
  share.Ask(b, true);
  REQUIRE(b.shim().WaitFor(ProcessState::kRunning));
  CHECK(a.shim().state() == ProcessState::kRunning);
  CHECK(a.shim().Count(Type::kPrepare) == 0);
}

TEST_CASE("who was paused by a request stays so, also where that came when it was out already") {
  Share share;
  Wired& a = share.Add(100);
  REQUIRE(share.Pause(a, true).ok());
  CHECK(a.process()->View().OutForTurn());
  REQUIRE(share.Pause(a, false).ok());
  CHECK_FALSE(a.process()->View().OutForTurn());
  share.Ask(a, true);
  CHECK(share.Refusal(a) == "HELD");
  CHECK(a.shim().no_turn()->again_ms == 0);
  CHECK(a.shim().state() == ProcessState::kPaused);
}

TEST_CASE("nobody is paused who takes no turns, or whom an orchestrator leads") {
  Share share;
  Wired &plain = share.Add(100, 3_MiB, false), &led = share.Add(101, 3_MiB);
  Wired& b = share.Add(102, 2_MiB);
  REQUIRE(share.Pause(led, false, 7).ok());
  ResumeOrder back;
  back.selector.pids = {101};
  back.epoch = 7;
  Course course;
  REQUIRE(share.node.Resume({.sees_all = true}, back, course).ok());
  share.Ask(b, false, 4_MiB);
  CHECK(share.Refusal(b) == "GPU_MEMORY");
  CHECK(plain.shim().state() == ProcessState::kRunning);
  CHECK(led.shim().state() == ProcessState::kRunning);
}

TEST_CASE("where the bytes have no place to go, both stay as they are and the asker hears why") {
  Share share(0);
  Wired &a = share.Add(100), &b = share.Add(101, 2_MiB);
  share.Ask(b, false, 6_MiB);
  const std::string reason = share.Refusal(b);
  INFO(reason);
  CHECK((reason == "HOST_MEMORY" || reason == "NO_SCRATCH"));
  CHECK(a.shim().state() == ProcessState::kRunning);
  CHECK_FALSE(b.process()->View().asks_turn);
}

TEST_CASE("a turn whose second half fails is taken back, and tried again") {
  Share share;
  Wired &a = share.Add(100), &b = share.Add(101);
  REQUIRE(share.Pause(b, true).ok());
  b.shim().On(Type::kResume, Act::kRefuse);
  share.Ask(b, true);
  REQUIRE(Comes([&] { return a.shim().Count(Type::kResume) == 1; }));
  REQUIRE(a.shim().WaitFor(ProcessState::kRunning));
  CHECK(b.shim().state() == ProcessState::kPaused);
  b.shim().On(Type::kResume, Act::kWork);
  REQUIRE(b.shim().WaitFor(ProcessState::kRunning));
  REQUIRE(a.shim().WaitFor(ProcessState::kPaused));
}

TEST_CASE("several that ask have their turns in the order in which they asked") {
  Share share;
  Wired &a = share.Add(100), &b = share.Add(101), &c = share.Add(102);
  REQUIRE(share.Pause(b, true).ok());
  REQUIRE(share.Pause(c, true).ok());
  share.Ask(c, true);
  REQUIRE(Comes([&] { return c.process()->View().asks_turn; }));  // it is seen before the other
  share.Ask(b, true);
  REQUIRE(c.shim().WaitFor(ProcessState::kRunning));
  REQUIRE(a.shim().WaitFor(ProcessState::kPaused));
  share.Ask(a, true);
  REQUIRE(b.shim().WaitFor(ProcessState::kRunning));
  REQUIRE(a.shim().WaitFor(ProcessState::kRunning));
  // Each came in once, and kept its quantum.
  const uint64_t quantum_ns = kQuantumMs * 1'000'000;
  // The daemon notes that a moment after the shim runs.
  CHECK(Comes([&] {
    return b.process()->came_in_ns() >= c.process()->came_in_ns() + quantum_ns &&
           a.process()->came_in_ns() >= b.process()->came_in_ns() + quantum_ns;
  }));
  CHECK(c.shim().Count(Type::kResume) == 1);
  CHECK(b.shim().Count(Type::kResume) == 1);
}

TEST_CASE("one that ends while it waits is waited for no longer") {
  Share share;
  Wired &a = share.Add(100), &b = share.Add(101);
  REQUIRE(share.Pause(b, true).ok());
  a.process()->ComesIn();
  share.Ask(b, true);
  b.process()->End();
  share.registry.Remove(b.process());
  Wired& c = share.Add(102, 1_MiB);
  share.Ask(c, false, 6_MiB);
  REQUIRE(a.shim().WaitFor(ProcessState::kPaused));
}
