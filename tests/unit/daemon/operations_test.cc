// Operations: answers by request id, deadlines that undo nothing, and the end.
#include "daemon/operations.h"

#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "daemon/status.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

Outcomes Pid(int pid) {
  Outcome outcome;
  outcome.pid = pid;
  return {outcome};
}

// Work that waits until it is let go.
class Latch {
 public:
  Operations::Work Work(int pid) {
    return [this, pid](Course& course) -> absl::StatusOr<Outcomes> {
      const MutexLock lock(mu_);
      ++started_;
      changed_.NotifyAll();
      while (!open_ && !course.cancelled()) {
        changed_.WaitUntil(mu_, Deadline::InMs(Course::kLookMs));
      }
      if (course.cancelled()) return course.Cancellation();
      return Pid(pid);
    };
  }
  void Open() {
    const MutexLock lock(mu_);
    open_ = true;
    changed_.NotifyAll();
  }
  int started() {
    const MutexLock lock(mu_);
    return started_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool open_ GUARDED_BY(mu_) = false;
  int started_ GUARDED_BY(mu_) = 0;
};

absl::StatusOr<Outcomes> Run(Operations& operations, const std::string& id, const std::string& body,
                             Deadline by, Operations::Work work) {
  auto view = operations.Run({"uid 1", OperationKind::kPause, id, body}, by, std::move(work));
  if (!view.ok()) return view.status();
  return **view->answer;
}

const Caller kOne{.uid = 1};
const Caller kOther{.uid = 2};
const Caller kRoot{.uid = 0, .sees_all = true};

// From now: one of the start would have passed in a long run.
Deadline Soon() { return Deadline::InMs(10'000); }

}  // namespace

TEST_CASE(
    "one who was busy is asked again under the same id, and answered for good when it is not") {
  Operations operations;
  int runs = 0;
  const auto work = [&](Course&) -> absl::StatusOr<Outcomes> {
    if (++runs < 3) return Fail(absl::StatusCode::kFailedPrecondition, "BUSY", "moving");
    return Pid(runs);
  };
  for (const int expected : {1, 2, 3, 3}) {
    const auto answer = Run(operations, "id", "body", Soon(), work);
    CHECK(answer.ok() == (expected == 3));
    CHECK(runs == expected);
  }
}

TEST_CASE("a repeated request id gives the first answer and works once") {
  Operations operations;
  int runs = 0;
  const auto work = [&](Course&) -> absl::StatusOr<Outcomes> { return Pid(++runs); };
  for (int i = 0; i < 3; ++i) {
    const auto answer = Run(operations, "id", "body", Soon(), work);
    REQUIRE(answer.ok());
    CHECK((*answer)[0].pid == 1);
  }
  CHECK(runs == 1);
  const Operations::Request others{"uid 2", OperationKind::kPause, "id", "body"};
  CHECK((**operations.Run(others, Soon(), work)->answer)[0].pid == 2);
  CHECK((*Run(operations, "", "body", Soon(), work))[0].pid == 3);
  CHECK((*Run(operations, "", "body", Soon(), work))[0].pid == 4);
}

TEST_CASE("an answer that was a failure is given again too") {
  Operations operations;
  int runs = 0;
  const auto work = [&](Course&) -> absl::StatusOr<Outcomes> {
    ++runs;
    return Fail(absl::StatusCode::kResourceExhausted, "DISK_SPACE", "full");
  };
  CHECK(ReasonOf(Run(operations, "id", "b", Soon(), work).status()) == "DISK_SPACE");
  CHECK(ReasonOf(Run(operations, "id", "b", Soon(), work).status()) == "DISK_SPACE");
  CHECK(runs == 1);
}

TEST_CASE("a request id with another body is refused") {
  Operations operations;
  const auto work = [](Course&) -> absl::StatusOr<Outcomes> { return Pid(1); };
  REQUIRE(Run(operations, "id", "one", Soon(), work).ok());
  const auto status = Run(operations, "id", "two", Soon(), work).status();
  CHECK(status.code() == absl::StatusCode::kAlreadyExists);
  CHECK(ReasonOf(status) == "REQUEST_ID_REUSED");
}

TEST_CASE("a caller's deadline undoes nothing, and the answer is found later") {
  Operations operations;
  Latch latch;
  const auto late = Run(operations, "id", "b", Deadline::InMs(20), latch.Work(5));
  CHECK(late.status().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(ReasonOf(late.status()) == "STILL_RUNNING");
  CHECK(MetadataOf(late.status())["request_id"] == "id");
  latch.Open();
  const auto answer = Run(operations, "id", "b", Soon(), latch.Work(6));
  REQUIRE(answer.ok());
  CHECK((*answer)[0].pid == 5);
  CHECK(latch.started() == 1);
}

TEST_CASE("the oldest answers are forgotten first") {
  Operations operations;
  int runs = 0;
  const auto work = [&](Course&) -> absl::StatusOr<Outcomes> { return Pid(++runs); };
  for (int i = 0; i < 1025; ++i) {
    REQUIRE(Run(operations, std::to_string(i), "b", Soon(), work).ok());
  }
  CHECK((*Run(operations, "1024", "b", Soon(), work))[0].pid == 1025);
  CHECK((*Run(operations, "1", "b", Soon(), work))[0].pid == 2);
  CHECK((*Run(operations, "0", "b", Soon(), work))[0].pid == 1026);
}

TEST_CASE("after the end nothing starts") {
  Operations operations;
  operations.Finish();
  const auto work = [](Course&) -> absl::StatusOr<Outcomes> { return Pid(1); };
  CHECK(Run(operations, "", "b", Soon(), work).status().code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("an operation is found by its id and by its request's, by its caller and who sees all") {
  Operations operations;
  Latch latch;
  const auto late = Run(operations, "step", "b", Deadline::InMs(0), latch.Work(5)).status();
  const std::string id = MetadataOf(late)["operation"];
  REQUIRE_FALSE(id.empty());
  for (const Operations::Name& name : {Operations::Name{id, ""}, Operations::Name{"", "step"}}) {
    const auto view = operations.Wait(kOne, name, Deadline::InMs(0));
    REQUIRE(view.ok());
    CHECK(view->origin.id == id);
    CHECK(view->origin.caller == "uid 1");
    CHECK_FALSE(view->answer.has_value());
    CHECK(ReasonOf(operations.Wait(kOther, name, Soon()).status()) == "NO_OPERATION");
  }
  CHECK(operations.Wait(kRoot, {id, ""}, Deadline::InMs(0)).ok());
  CHECK(ReasonOf(operations.Wait(kRoot, {"", "step"}, Soon()).status()) == "NO_OPERATION");
  CHECK(ReasonOf(operations.Wait(kOne, {"", ""}, Soon()).status()) == "NO_OPERATION");
  CHECK(operations.List(kOther).empty());
  CHECK(operations.List(kRoot).size() == 1);
  latch.Open();
  const auto ended = operations.Wait(kOne, {id, ""}, Soon());
  REQUIRE(ended->answer.has_value());
  CHECK((**ended->answer)[0].pid == 5);
  CHECK(ended->ended_ns >= ended->origin.begun_ns);
}

TEST_CASE("one that is cancelled ends, by its caller's or root's wish, and is answered so again") {
  Operations operations;
  Latch latch;
  Run(operations, "step", "b", Deadline::InMs(0), latch.Work(5)).IgnoreError();
  CHECK(ReasonOf(operations.Cancel(kOther, {"", "step"}, Soon()).status()) == "NO_OPERATION");
  const auto view = operations.Cancel(kOne, {"", "step"}, Soon());
  REQUIRE(view->answer.has_value());
  CHECK(view->answer->status().code() == absl::StatusCode::kCancelled);
  CHECK(view->cancelled);
  CHECK(ReasonOf(Run(operations, "step", "b", Soon(), latch.Work(6)).status()) == "CANCELLED");
  CHECK(latch.started() == 1);
}

TEST_CASE("cancelling what has ended changes nothing") {
  Operations operations;
  const auto work = [](Course&) -> absl::StatusOr<Outcomes> { return Pid(1); };
  REQUIRE(Run(operations, "step", "b", Soon(), work).ok());
  const auto view = operations.Cancel(kOne, {"", "step"}, Soon());
  CHECK(view->answer->ok());
  CHECK_FALSE(view->cancelled);
}

TEST_CASE("one who was busy is still listed, and does not answer for the next request of that id") {
  Operations operations;
  const auto busy = [](Course&) -> absl::StatusOr<Outcomes> {
    return Fail(absl::StatusCode::kFailedPrecondition, "BUSY", "moving");
  };
  const auto work = [](Course&) -> absl::StatusOr<Outcomes> { return Pid(1); };
  CHECK_FALSE(Run(operations, "step", "b", Soon(), busy).ok());
  CHECK(Run(operations, "step", "b", Soon(), work).ok());
  const auto all = operations.List(kOne);
  REQUIRE(all.size() == 2);
  CHECK(all[0].origin.id != all[1].origin.id);
  CHECK(operations.Wait(kOne, {"", "step"}, Soon())->answer->ok());
}

TEST_CASE("the next daemon knows what was answered, and what was interrupted") {
  const testing::TestDir dir;
  const std::string boot = "00000000-0000-4000-8000-000000000000";
  std::string id;
  {
    Journal journal(dir.path(), boot);
    Operations operations(&journal);
    const auto work = [](Course&) -> absl::StatusOr<Outcomes> { return Pid(7); };
    REQUIRE(Run(operations, "", "b", Soon(), work).ok());
    id = operations.List(kOne)[0].origin.id;
    BegunOperation begun;
    begun.kind = OperationKind::kResume;
    begun.parties.emplace_back().identity.pid = 9;
    begun.parties.back().was_out = true;
    begun.origin = {"cut-1", "uid 1", "later", 5};
    journal.Begin(begun);
  }
  Journal journal(dir.path(), boot);
  Operations operations(&journal);
  const auto done = operations.Wait(kOne, {id, ""}, Soon());
  REQUIRE(done.ok());
  CHECK((**done->answer)[0].pid == 7);
  const auto cut = operations.Wait(kOne, {"", "later"}, Soon());
  REQUIRE(cut.ok());
  CHECK(cut->origin.id == "cut-1");
  CHECK(cut->kind == OperationKind::kResume);
  CHECK(cut->pids == std::vector<int>{9});
  CHECK(ReasonOf(cut->answer->status()) == "INTERRUPTED");
  // Asked for again, it is carried out.
  const auto work = [](Course&) -> absl::StatusOr<Outcomes> { return Pid(8); };
  CHECK(Run(operations, "later", "b", Soon(), work).ok());
  CHECK(operations.List(kOne).size() == 3);
}

TEST_CASE("one whose callers are all gone is abandoned, and carried out again for the next") {
  Operations operations;
  std::atomic<bool> gone{false};
  std::atomic<int> runs{0};
  const auto waits = [&](Course& course) -> absl::StatusOr<Outcomes> {
    ++runs;
    for (const Deadline by = Soon(); !course.unwanted() && !by.Passed();) sched_yield();
    return course.unwanted() ? course.Cancellation() : absl::StatusOr<Outcomes>(Pid(1));
  };
  const Operations::Request request{"uid 1", OperationKind::kResume, "id", "body"};
  std::thread leaves([&] {
    for (const Deadline by = Soon(); runs == 0 && !by.Passed();) sched_yield();
    gone = true;
  });
  (void)operations.Run(request, Soon(), waits, [&] { return gone.load(); });
  leaves.join();
  const auto ended = operations.Wait(kOne, {"", "id"}, Soon());
  REQUIRE(ended.ok());
  REQUIRE(ended->answer);
  CHECK(ended->answer->status().code() == absl::StatusCode::kCancelled);
  CHECK(ReasonOf(ended->answer->status()) == "CALLER_GONE");
  const auto again =
      operations.Run(request, Soon(), [&](Course&) -> absl::StatusOr<Outcomes> { return Pid(2); });
  REQUIRE(again.ok());
  CHECK((**again->answer)[0].pid == 2);
}

TEST_CASE("who repeats a request that is being abandoned has it carried out anew") {
  Operations operations;
  std::atomic<bool> begun{false}, joined{false};
  const auto leaving = [&](Course& course) -> absl::StatusOr<Outcomes> {
    begun = true;
    for (const Deadline by = Soon(); !(course.unwanted() && joined) && !by.Passed();) sched_yield();
    return course.Cancellation();
  };
  const auto works = [](Course&) -> absl::StatusOr<Outcomes> { return Pid(2); };
  const Operations::Request request{"uid 1", OperationKind::kResume, "id", "body"};
  (void)operations.Run(request, Soon(), leaving, [&] { return begun.load(); });
  const auto again = operations.Run(request, Soon(), works, [&] {
    joined = true;
    return false;
  });
  REQUIRE(again.ok());
  CHECK((**again->answer)[0].pid == 2);
}

TEST_CASE(
    "one is abandoned too when the last who waited for it came after its caller and goes first") {
  Operations operations;
  std::atomic<bool> begun{false};
  const auto waits = [&](Course& course) -> absl::StatusOr<Outcomes> {
    begun = true;
    for (const Deadline by = Soon(); !course.unwanted() && !by.Passed();) sched_yield();
    return course.unwanted() ? course.Cancellation() : absl::StatusOr<Outcomes>(Pid(1));
  };
  std::atomic<bool> gone{false};
  std::thread caller([&] {
    (void)operations.Run({"uid 1", OperationKind::kResume, "id", "body"}, Soon(), waits,
                         [&] { return gone.load(); });
  });
  while (!begun) sched_yield();
  std::thread looks([&] { (void)operations.Wait(kOne, {"", "id"}, Deadline::InMs(300)); });
  gone = true;
  caller.join();
  looks.join();
  const auto ended = operations.Wait(kOne, {"", "id"}, Soon());
  REQUIRE(ended.ok());
  REQUIRE(ended->answer);
  CHECK(ReasonOf(ended->answer->status()) == "CALLER_GONE");
}

TEST_CASE("one that somebody was told goes on is not abandoned when he goes") {
  Operations operations;
  std::atomic<bool> abandoned{false}, let_go{false};
  const auto works = [&](Course& course) -> absl::StatusOr<Outcomes> {
    while (!let_go) sched_yield();
    abandoned = course.unwanted();
    return Pid(1);
  };
  const Operations::Request request{"uid 1", OperationKind::kResume, "id", "body"};
  CHECK(ReasonOf(operations.Run(request, Deadline::InMs(20), works).status()) == "STILL_RUNNING");
  (void)operations.Run(request, Soon(), works, [] { return true; });
  let_go = true;
  REQUIRE(operations.Wait(kOne, {"", "id"}, Soon())->answer);
  CHECK_FALSE(abandoned);
}

TEST_CASE("what is started goes on with nobody listening, and is found by its id") {
  Operations operations;
  Latch latch;
  const auto id = operations.Start({"uid 1", OperationKind::kWriteBehind, "", ""}, latch.Work(7));
  REQUIRE(id.ok());
  auto view = operations.Wait(kOne, {*id, ""}, Deadline::InMs(0));
  REQUIRE(view.ok());
  CHECK_FALSE(view->answer);
  CHECK(view->kind == OperationKind::kWriteBehind);
  latch.Open();
  view = operations.Wait(kOne, {*id, ""}, Soon());
  REQUIRE(view->answer);
  CHECK((*view->answer)->front().pid == 7);
  operations.Finish();
  const auto late = operations.Start({"uid 1", OperationKind::kWriteBehind, "", ""}, latch.Work(7));
  CHECK(ReasonOf(late.status()) == "SHUTTING_DOWN");
}
