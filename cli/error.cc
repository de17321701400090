// Maps reasons and status codes to exit codes and to the hint that ends the sentence.
#include "cli/error.h"

#include "absl/strings/str_cat.h"
#include "cli/exit_codes.h"
#include "cli/format.h"

namespace parkade::cli {
namespace {

constexpr char kReason[] = "parkade.v1/reason";

struct Hint {
  std::string_view reason;
  std::string_view text;
};

// Where the daemon's own message does not say what to do.
constexpr Hint kHints[] = {
    {"NO_PROCESS", "`parkade ps` lists what can be paused"},
    {"NOT_INSTRUMENTED", "what is to be paused has to be started so"},
    {"UNKNOWN_TAG", "`parkade show PID` lists the tags of a process"},
    {"BUSY", "`parkade watch` shows what it is doing"},
    {"STALE_EPOCH", "another controller has taken over"},
    {"CAPTURE_ACTIVE", "try again when the capture has ended"},
    {"MEMLOCK", "raise the limit (ulimit -l, or LimitMEMLOCK= of its service)"},
    {"GPU_MEMORY", "pause or end what holds it, then try again"},
    {"NO_ANSWER", "--timeout says how long to wait"},
    {"STILL_RUNNING", "`parkade ops` shows how it ends"},
    {"NO_GROUP", "`parkade group NAME --job JOB` defines one"},
    {"NO_OPERATION", "`parkade ops --ended` lists them"},
    {"UID_MISMATCH", "its user, root and the group parkade may"},
    {"UNREACHABLE", "start parkaded, or name its directory with --runtime-dir"},
};

std::string_view HintFor(std::string_view reason) {
  for (const Hint& hint : kHints) {
    if (hint.reason == reason) return hint.text;
  }
  return {};
}

}  // namespace

absl::Status MakeStatus(absl::StatusCode code, std::string_view message, std::string_view reason) {
  absl::Status status(code, absl::string_view(message.data(), message.size()));
  if (!reason.empty()) status.SetPayload(kReason, absl::Cord(std::string(reason)));
  return status;
}

absl::Status UsageError(std::string_view message) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, message, "");
}

std::string ReasonOf(const absl::Status& status) {
  const auto reason = status.GetPayload(kReason);
  return reason ? std::string(*reason) : std::string();
}

int ExitCodeOf(const absl::Status& status) {
  // The daemon is there and answered: what is missing is the process's side.
  if (ReasonOf(status) == "SHIM_DISCONNECTED") return kExitState;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
      return kExitState;
    case absl::StatusCode::kResourceExhausted:
      return kExitResources;
    case absl::StatusCode::kUnavailable:
      return kExitUnreachable;
    case absl::StatusCode::kDataLoss:
      return kExitDataLoss;
    case absl::StatusCode::kDeadlineExceeded:
      return kExitTimeout;
    default:
      return kExitFailed;
  }
}

std::string Sentence(std::string_view what, const absl::Status& status) {
  std::string text = "parkade: ";
  if (!what.empty()) absl::StrAppend(&text, std::string(what), ": ");
  absl::StrAppend(&text, status.message().empty() ? "failed" : status.message());
  const std::string reason = ReasonOf(status);
  if (!reason.empty()) absl::StrAppend(&text, " (", reason, ")");
  const std::string_view hint = HintFor(reason);
  if (!hint.empty()) absl::StrAppend(&text, "; ", std::string(hint));
  return Printable(text);
}

}  // namespace parkade::cli
