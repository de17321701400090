// A handoff between groups of fake shims: how much HBM who comes in is allowed, and where everybody
// is after a fault at any message.
#include <catch2/catch.hpp>
#include <thread>

#include "daemon/exchange.h"
#include "daemon/status.h"
#include "tests/unit/daemon/wired_group.h"

using namespace parkade;
using namespace parkade::daemon;
using testing::Act;
using testing::kToHost;
using testing::WiredGroup;
using wire::ProcessState;
using wire::Type;

namespace {

constexpr size_t kProcesses = 2;
constexpr Act kFaults[] = {Act::kRefuse, Act::kHang, Act::kDisconnect, Act::kDropAnswer,
                           Act::kAnswerAndDrop};
constexpr Transition::Limits kLimits{150, 150, 150};
constexpr int kFirstOut = 100, kFirstIn = 200;
const GateOrder kGate{.drain_timeout_ns = 500'000'000};
const std::string kUuid = "GPU-01020304-0506-0708-090a-0b0c0d0e0f10";

struct Pair {
  explicit Pair(Transition::Limits limits = kLimits, Bytes out_bytes = 1_MiB,
                Bytes in_bytes = 1_MiB)
      : out(limits, kProcesses, nullptr, kFirstOut, out_bytes),
        in(limits, kProcesses, nullptr, kFirstIn, in_bytes) {
    auto pause = in.Begin();
    REQUIRE(pause.Prepare(kGate).ok());
    REQUIRE(pause.Commit(kToHost).ok());
    for (Member& m : in.members) {
      m.was_out = true;
      m.prepared = m.finished = {};
    }
  }

  absl::Status Hand(Overlap overlap = Overlap::kHost) {
    Transition outgoing(out.members, out.events, out.limits, 0, &course);
    Transition incoming(in.members, in.events, in.limits, 0, &course);
    if (auto s = outgoing.Prepare(kGate); !s.ok()) return s;
    Pace pace(out.members, in.members, overlap, {{kUuid, 4_MiB}});
    Timeline timeline;
    return Exchange(outgoing, incoming, pace, course, out.limits.stall_ms)
        .Run(kToHost, false, timeline);
  }

  Course course;
  WiredGroup out, in;
};

bool Names(const absl::Status& status, const char* list, int pid) {
  return MetadataOf(status)[list].find(std::to_string(pid)) != std::string::npos;
}

}  // namespace

TEST_CASE("a handoff ends with one side out and the other running") {
  for (const Overlap overlap : {Overlap::kHost, Overlap::kGpu, Overlap::kOrdered}) {
    Pair pair({2000, 2000, 2000});
    REQUIRE(pair.Hand(overlap).ok());
    CHECK(pair.out.AllAre(ProcessState::kPaused));
    CHECK(pair.in.AllAre(ProcessState::kRunning));
    for (size_t i = 0; i < kProcesses; ++i) {
      CHECK(pair.in.shim(i).Count(Type::kResume) == 2);  // in turn, and the gate's opening
      CHECK(pair.in.shim(i).Count(Type::kRoom) >= 1);
    }
  }
}

TEST_CASE("who comes in is allowed what has gone out and the margin, and no more") {
  Pair pair({2000, 2000, 2000}, 16_GiB, 16_GiB);
  const Bytes larger = kProcesses * 16_GiB;
  Pace pace(pair.out.members, pair.in.members, Overlap::kHost, {{kUuid, 80_GiB}});
  CHECK(pace.AllowedOn(kUuid) == larger + Pace::kMargin);
  const auto allows = [&](Bytes wanted) {
    pace.Look(false);
    Bytes sum = 0;
    for (const Deadline by = Deadline::InMs(2000); sum != wanted && !by.Passed(); sched_yield()) {
      sum = pair.in.shim(0).room() + pair.in.shim(1).room();
    }
    return sum == wanted;
  };
  CHECK(allows(Pace::kMargin));
  pair.out.shim(1).SetShifted(-int64_t(10_GiB));
  CHECK(allows(Pace::kMargin + 10_GiB));
  pair.out.shim(0).SetShifted(-int64_t(16_GiB));
  CHECK(allows(Pace::kMargin + 26_GiB));
  CHECK(pace.PeakOn(kUuid) == larger);
  // A ledger that makes no sense has released nothing; the next message shows that none came.
  pair.out.shim(0).SetShifted(INT64_MAX);
  pace.Look(false);
  pair.out.shim(0).SetShifted(-int64_t(16_GiB));
  pair.out.shim(1).SetShifted(-int64_t(11_GiB));
  CHECK(allows(Pace::kMargin + 27_GiB));
  for (size_t i = 0; i < kProcesses; ++i) CHECK(pair.in.shim(i).Count(Type::kRoom) <= 4);
  pace.Look(true);
  for (size_t i = 0; i < kProcesses; ++i) {
    for (const Deadline by = Deadline::InMs(2000); pair.in.shim(i).room() <= larger;) {
      REQUIRE_FALSE(by.Passed());
      sched_yield();
    }
  }
}

TEST_CASE("what the driver does not have free is not allowed either") {
  Pair pair({2000, 2000, 2000}, 16_GiB, 16_GiB);
  Pace pace(pair.out.members, pair.in.members, Overlap::kHost, {{kUuid, 256_MiB}});
  pace.Look(false);
  for (const Deadline by = Deadline::InMs(2000); pair.in.shim(0).room() == 0 && !by.Passed();) {
    sched_yield();
  }
  CHECK(pair.in.shim(0).room() == 256_MiB);
  Pace ordered(pair.out.members, pair.in.members, Overlap::kOrdered, {{kUuid, 80_GiB}});
  ordered.Look(false);
  CHECK(pair.in.shim(0).room() == 256_MiB);
}

TEST_CASE("a fault at any message of a handoff leaves every process where it was, or named") {
  struct At {
    bool out;
    Type type;
    int after;
  };
  int faults = 0, failures = 0;
  for (const At& at :
       {At{true, Type::kPrepare, 0}, At{true, Type::kCommit, 0}, At{false, Type::kResume, 0}}) {
    for (const Act fault : kFaults) {
      for (size_t i = 0; i < kProcesses; ++i) {
        Pair pair;
        INFO("message " << int(at.type) << ", fault " << int(fault) << ", process " << i);
        (at.out ? pair.out : pair.in).shim(i).On(at.type, fault, at.after);
        const absl::Status status = pair.Hand();
        ++faults;
        if (status.ok()) {
          CHECK(pair.out.AllAre(ProcessState::kPaused));
          CHECK(pair.in.AllAre(ProcessState::kRunning));
          continue;
        }
        ++failures;
        INFO(MessageOf(status));
        if (!at.out && fault == Act::kAnswerAndDrop) {
          // Lost between its last byte and the opening of its gate, it has gone back by itself.
          CHECK(pair.out.AllAre(ProcessState::kPaused));
          CHECK(pair.in.shim(i).WaitFor(ProcessState::kPaused));
          CHECK(Names(status, "paused_pids", kFirstIn + int(i)));
          continue;
        }
        for (size_t k = 0; k < kProcesses; ++k) {
          const bool paused = Names(status, "paused_pids", kFirstOut + int(k));
          CHECK(pair.out.shim(k).WaitFor(paused ? ProcessState::kPaused : ProcessState::kRunning));
          CHECK(pair.in.shim(k).WaitFor(ProcessState::kPaused));
        }
      }
    }
  }
  CHECK(faults == 30);
  CHECK(failures >= 24);
}

TEST_CASE("a fault at the opening of a gate names who is not running, and undoes nothing") {
  for (const Act fault : {Act::kRefuse, Act::kHang, Act::kDisconnect}) {
    Pair pair;
    INFO("fault " << int(fault));
    pair.in.shim(1).On(Type::kResume, fault, 1);
    const absl::Status status = pair.Hand();
    CHECK_FALSE(status.ok());
    CHECK(pair.out.AllAre(ProcessState::kPaused));
    CHECK(pair.in.shim(0).WaitFor(ProcessState::kRunning));
    CHECK(Names(status, "paused_pids", kFirstIn + 1));
    CHECK(pair.in.shim(1).state() != ProcessState::kRunning);

    // The same again: those that are where they are to be get no message, the other one comes in.
    pair.in.shim(1).On(Type::kResume, Act::kWork);
    if (fault == Act::kDisconnect) pair.in.wired[1]->Reconnect();
    for (Member& m : pair.out.members) m.already = true;
    pair.in.members[0].already = true;
    pair.in.members[1].prepared = pair.in.members[1].finished = {};
    Transition incoming(pair.in.members, pair.in.events, pair.in.limits, 0, &pair.course);
    CHECK(incoming.Resume({}).ok());
    CHECK(pair.in.AllAre(ProcessState::kRunning));
  }
}

TEST_CASE("a second fault while a handoff is undone strands nobody") {
  for (const Act fault : kFaults) {
    for (const bool out : {true, false}) {
      Pair pair;
      INFO("fault " << int(fault) << ", " << (out ? "of who goes out" : "of who comes in"));
      pair.out.shim(0).On(Type::kCommit, Act::kRefuse);
      (out ? pair.out : pair.in).shim(1).On(Type::kAbort, fault);
      const absl::Status status = pair.Hand();
      CHECK(ReasonOf(status) == "BUSY");
      CHECK(pair.out.shim(0).WaitFor(ProcessState::kRunning));
      const bool paused = Names(status, "paused_pids", kFirstOut + 1);
      CHECK(pair.out.shim(1).WaitFor(paused ? ProcessState::kPaused : ProcessState::kRunning));
      CHECK(pair.in.AllAre(ProcessState::kPaused));
    }
  }
}

TEST_CASE("a handoff that is cancelled while bytes move is undone") {
  Pair pair({2000, 2000, 2000});
  pair.out.shim(1).On(Type::kCommit, Act::kHang);
  std::thread cancels([&] {
    pair.out.shim(0).WaitFor(ProcessState::kPaused);
    pair.course.Cancel("uid 0");
  });
  const absl::Status status = pair.Hand();
  cancels.join();
  CHECK(status.code() == absl::StatusCode::kCancelled);
  CHECK(pair.out.AllAre(ProcessState::kRunning));
  CHECK(pair.in.AllAre(ProcessState::kPaused));
}
