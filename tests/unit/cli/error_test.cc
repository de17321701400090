// Every kind of failure has its exit code and one sentence.
#include "cli/error.h"

#include <catch2/catch.hpp>

#include "cli/exit_codes.h"

namespace parkade::cli {

TEST_CASE("exit codes follow the kind of failure") {
  using absl::StatusCode;
  const std::pair<StatusCode, int> kCodes[] = {
      {StatusCode::kInvalidArgument, 2},
      {StatusCode::kOutOfRange, 2},
      {StatusCode::kNotFound, 3},
      {StatusCode::kFailedPrecondition, 4},
      {StatusCode::kAborted, 4},
      {StatusCode::kResourceExhausted, 5},
      {StatusCode::kUnavailable, 6},
      {StatusCode::kDataLoss, 7},
      {StatusCode::kDeadlineExceeded, 124},
      {StatusCode::kInternal, 1},
      {StatusCode::kPermissionDenied, 1},
      {StatusCode::kUnimplemented, 1},
  };
  for (const auto& [code, exit_code] : kCodes) {
    INFO(int(code));
    CHECK(ExitCodeOf(absl::Status(code, "x")) == exit_code);
  }
  CHECK(ExitCodeOf(absl::OkStatus()) == kExitOk);
}

TEST_CASE("a process without its shim is a matter of state, not of the daemon") {
  const auto status = MakeStatus(absl::StatusCode::kUnavailable, "x", "SHIM_DISCONNECTED");
  CHECK(ExitCodeOf(status) == kExitState);
}

TEST_CASE("the sentence has verb, message, reason and what to do") {
  const auto status = MakeStatus(absl::StatusCode::kNotFound, "no such process", "NO_PROCESS");
  CHECK(Sentence("pause 4711", status) ==
        "parkade: pause 4711: no such process (NO_PROCESS); `parkade ps` lists what can be paused");
  CHECK(Sentence("ps", absl::InternalError("it broke")) == "parkade: ps: it broke");
  CHECK(Sentence("", absl::InternalError("")) == "parkade: failed");
}

TEST_CASE("a message of several lines stays one line") {
  CHECK(Sentence("ps", absl::InternalError("a\nb\033[1m")) == "parkade: ps: a b?[1m");
}

}  // namespace parkade::cli
