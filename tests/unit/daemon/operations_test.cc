// Operations: answers by request id, deadlines that undo nothing, and the end.
#include "daemon/operations.h"

#include <catch2/catch.hpp>

#include "daemon/status.h"

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
    return [this, pid]() -> absl::StatusOr<Outcomes> {
      const MutexLock lock(mu_);
      ++started_;
      changed_.NotifyAll();
      while (!open_) changed_.WaitUntil(mu_, Deadline::InMs(10'000));
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

// From now: one of the start would have passed in a long run.
Deadline Soon() { return Deadline::InMs(10'000); }

}  // namespace

TEST_CASE(
    "one who was busy is asked again under the same id, and answered for good when it is not") {
  Operations operations;
  int runs = 0;
  const auto work = [&]() -> absl::StatusOr<Outcomes> {
    if (++runs < 3) return Fail(absl::StatusCode::kFailedPrecondition, "BUSY", "moving");
    return Pid(runs);
  };
  for (const int expected : {1, 2, 3, 3}) {
    const auto answer = operations.Run("uid 1", "id", "body", Soon(), work);
    CHECK(answer.ok() == (expected == 3));
    CHECK(runs == expected);
  }
}

TEST_CASE("a repeated request id gives the first answer and works once") {
  Operations operations;
  int runs = 0;
  const auto work = [&]() -> absl::StatusOr<Outcomes> { return Pid(++runs); };
  for (int i = 0; i < 3; ++i) {
    const auto answer = operations.Run("uid 1", "id", "body", Soon(), work);
    REQUIRE(answer.ok());
    CHECK((*answer)[0].pid == 1);
  }
  CHECK(runs == 1);
  CHECK((*operations.Run("uid 2", "id", "body", Soon(), work))[0].pid == 2);  // another user's
  CHECK((*operations.Run("uid 1", "", "body", Soon(), work))[0].pid == 3);
  CHECK((*operations.Run("uid 1", "", "body", Soon(), work))[0].pid == 4);
}

TEST_CASE("an answer that was a failure is given again too") {
  Operations operations;
  int runs = 0;
  const auto work = [&]() -> absl::StatusOr<Outcomes> {
    ++runs;
    return Fail(absl::StatusCode::kResourceExhausted, "DISK_SPACE", "full");
  };
  CHECK(ReasonOf(operations.Run("uid 1", "id", "b", Soon(), work).status()) == "DISK_SPACE");
  CHECK(ReasonOf(operations.Run("uid 1", "id", "b", Soon(), work).status()) == "DISK_SPACE");
  CHECK(runs == 1);
}

TEST_CASE("a request id with another body is refused") {
  Operations operations;
  const auto work = []() -> absl::StatusOr<Outcomes> { return Pid(1); };
  REQUIRE(operations.Run("uid 1", "id", "one", Soon(), work).ok());
  const auto status = operations.Run("uid 1", "id", "two", Soon(), work).status();
  CHECK(status.code() == absl::StatusCode::kAlreadyExists);
  CHECK(ReasonOf(status) == "REQUEST_ID_REUSED");
}

TEST_CASE("a caller's deadline undoes nothing, and the answer is found later") {
  Operations operations;
  Latch latch;
  const auto late = operations.Run("uid 1", "id", "b", Deadline::InMs(20), latch.Work(5));
  CHECK(late.status().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(ReasonOf(late.status()) == "STILL_RUNNING");
  CHECK(MetadataOf(late.status())["request_id"] == "id");
  latch.Open();
  const auto answer = operations.Run("uid 1", "id", "b", Soon(), latch.Work(6));
  REQUIRE(answer.ok());
  CHECK((*answer)[0].pid == 5);
  CHECK(latch.started() == 1);
}

TEST_CASE("the oldest answers are forgotten first") {
  Operations operations;
  int runs = 0;
  const auto work = [&]() -> absl::StatusOr<Outcomes> { return Pid(++runs); };
  for (int i = 0; i < 1025; ++i) {
    REQUIRE(operations.Run("uid 1", std::to_string(i), "b", Soon(), work).ok());
  }
  CHECK((*operations.Run("uid 1", "1024", "b", Soon(), work))[0].pid == 1025);
  CHECK((*operations.Run("uid 1", "1", "b", Soon(), work))[0].pid == 2);
  CHECK((*operations.Run("uid 1", "0", "b", Soon(), work))[0].pid == 1026);
}

TEST_CASE("after the end nothing starts") {
  Operations operations;
  operations.Finish();
  const auto work = []() -> absl::StatusOr<Outcomes> { return Pid(1); };
  CHECK(operations.Run("uid 1", "", "b", Soon(), work).status().code() ==
        absl::StatusCode::kUnavailable);
}
