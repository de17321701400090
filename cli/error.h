// What the daemon's errors become for a user: a reason, an exit code and one sentence.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace parkade::cli {

// An error with the constant that programs tell it apart by ("NO_PROCESS"); empty: none.
absl::Status MakeStatus(absl::StatusCode code, std::string_view message, std::string_view reason);

// An error in what the user typed or set: exit code 2.
absl::Status UsageError(std::string_view message);

std::string ReasonOf(const absl::Status& status);
int ExitCodeOf(const absl::Status& status);

// "parkade: pause 4711: no such process (NO_PROCESS); `parkade ps` lists what can be paused", on
// one line whatever the message holds. `what` is the verb with what it was given.
std::string Sentence(std::string_view what, const absl::Status& status);

}  // namespace parkade::cli
