// Finding: one thing that `parkade doctor` has looked at, how it stands, and the line that mends
// it.
#pragma once

#include <string>
#include <vector>

namespace parkade::cli {

// From "as it should be" to "nothing can be paused like this".
enum class Level { kOk, kNote, kWarning, kError };

struct Finding {
  Level level = Level::kOk;
  std::string area;  // one word: "driver", "disk"
  std::string text;  // one sentence, without a full stop
  std::string fix;   // a line to type or to write; empty: there is nothing to mend
};
using Findings = std::vector<Finding>;

inline const char* LevelName(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kNote:
      return "note";
    case Level::kWarning:
      return "warning";
    case Level::kError:
      return "error";
  }
  return "error";
}

}  // namespace parkade::cli
