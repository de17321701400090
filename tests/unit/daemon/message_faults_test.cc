// Every message of a group's pause and resume, with everything that can go wrong at it: where each
// process is afterwards, and that nobody else is stuck.
#include <catch2/catch.hpp>

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

constexpr size_t kProcesses = 3;
constexpr Act kFaults[] = {Act::kRefuse, Act::kHang, Act::kDisconnect, Act::kDropAnswer,
                           Act::kAnswerAndDrop};
// Short: a process that answers nothing is waited for until it counts as stalled.
constexpr Transition::Limits kLimits{150, 150, 150};
const GateOrder kGate{.drain_timeout_ns = 500'000'000};

// Rank 0 is inside a collective that the others are still to launch, so that LetThrough is sent.
FakeJob Collective() { return FakeJob({{0}, {FakeJob::kOwnWork, 0}, {0}}, {{0, {0, 1, 2}}}); }

// After a failed pause: the ones whose connection holds run. One that was lost runs too, or is
// paused and named; none is anywhere between.
void CheckUndone(WiredGroup& group, const absl::Status& status) {
  const std::string paused = MetadataOf(status)["paused_pids"];
  for (size_t i = 0; i < kProcesses; ++i) {
    const std::string pid = std::to_string(100 + i);
    INFO("process " << pid << ", \"" << paused << "\" are said to be paused");
    // A lost one acts alone, a moment later.
    const bool runs = group.shim(i).WaitFor(
        paused.find(pid) == paused.npos ? ProcessState::kRunning : ProcessState::kPaused);
    CHECK(runs);
  }
}

// Whatever happened, the group can be resumed and paused again once its connections are back.
void CheckUsable(WiredGroup& group) {
  for (size_t i = 0; i < kProcesses; ++i) {
    for (const Type type :
         {Type::kPrepare, Type::kLetThrough, Type::kCommit, Type::kAbort, Type::kResume}) {
      group.shim(i).On(type, Act::kWork);
    }
    group.wired[i]->Reconnect();
    Member& m = group.members[i];
    m = {m.process, false, m.grant, nullptr, {}, {}};
  }
  auto back = group.Begin();
  CHECK(back.Resume({}).ok());
  CHECK(group.AllAre(ProcessState::kRunning));
  for (Member& m : group.members) m.already = false;
  auto again = group.Begin();
  CHECK(again.Prepare(kGate).ok());
  CHECK(again.Commit(kToHost).ok());
  CHECK(group.AllAre(ProcessState::kPaused));
}

absl::Status Pause(WiredGroup& group) {
  auto transition = group.Begin();
  if (auto s = transition.Prepare(kGate); !s.ok()) return s;
  return transition.Commit(kToHost);
}

}  // namespace

TEST_CASE("a fault at any message of a group's pause leaves all running, or paused and named") {
  int faults = 0, failures = 0;
  for (const Type type : {Type::kPrepare, Type::kLetThrough, Type::kCommit}) {
    for (const Act fault : kFaults) {
      for (size_t i = 0; i < kProcesses; ++i) {
        FakeJob job = Collective();
        job.Launch(0, 1);
        WiredGroup group(kLimits, kProcesses, &job);
        INFO("message " << int(type) << ", fault " << int(fault) << ", process " << i);
        group.shim(i).On(type, fault);
        const auto status = Pause(group);
        ++faults;
        failures += status.ok() ? 0 : 1;
        if (status.ok()) {
          // The fault came after the last answer, or the message was none of this process's.
          CHECK(group.AllAre(ProcessState::kPaused));
        } else {
          CheckUndone(group, status);
        }
        job.Launch(0, 6);  // so that what is left of the collectives can end
        job.Launch(1, 12);
        job.Launch(2, 6);
      }
    }
  }
  WARN(faults << " faults at messages of a pause, " << failures << " of them refused it");
  CHECK(faults == 45);
  CHECK(failures >= 35);
}

TEST_CASE("a second fault while a pause is undone strands nobody") {
  int faults = 0;
  for (const Type type : {Type::kAbort, Type::kResume}) {
    for (const Act fault : kFaults) {
      for (size_t i = 0; i < kProcesses; ++i) {
        for (size_t cause = 0; cause < kProcesses; ++cause) {
          WiredGroup group(kLimits, kProcesses);
          INFO("message " << int(type) << ", fault " << int(fault) << ", process " << i
                          << ", undone because of " << cause);
          group.shim(cause).On(Type::kCommit, Act::kRefuse);
          group.shim(i).On(type, fault);
          const auto status = Pause(group);
          ++faults;
          CHECK(ReasonOf(status) == "BUSY");
          CheckUndone(group, status);
          CheckUsable(group);
        }
      }
    }
  }
  WARN(faults << " faults while a pause was undone");
  CHECK(faults == 90);
}

TEST_CASE(
    "a fault at any message of a group's resume leaves the others running, and names who is not") {
  int faults = 0, failures = 0;
  for (const Act fault : kFaults) {
    for (size_t i = 0; i < kProcesses; ++i) {
      WiredGroup group(kLimits, kProcesses);
      INFO("fault " << int(fault) << ", process " << i);
      REQUIRE(Pause(group).ok());
      group.shim(i).On(Type::kResume, fault);
      for (Member& m : group.members) m = {m.process, false, m.grant, nullptr, {}, {}};
      auto transition = group.Begin();
      const auto status = transition.Resume({});
      ++faults;
      failures += status.ok() ? 0 : 1;
      const bool works = fault == Act::kDropAnswer || fault == Act::kAnswerAndDrop;
      for (size_t k = 0; k < kProcesses; ++k) {
        CHECK(group.shim(k).WaitFor(k != i || works ? ProcessState::kRunning
                                                    : ProcessState::kPaused));
      }
      CHECK(status.ok() == (fault == Act::kAnswerAndDrop));
      CHECK(MetadataOf(status)["paused_pids"] == (works ? "" : std::to_string(100 + i)));
      CheckUsable(group);
    }
  }
  WARN(faults << " faults at messages of a resume, " << failures << " of them failed it");
  CHECK(faults == 15);
}
