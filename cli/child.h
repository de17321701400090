// RunChild: another run of this program, with what it says.
#pragma once

#include <string>
#include <vector>

namespace parkade::cli {

struct Child {
  int exit_code = 1;  // of one that a signal has ended: 128 and the signal, as shells say it
  std::string out;
  std::string err;
};

// Runs `program` with these arguments and nothing to read, and waits for its end. One that cannot
// be started has ended with 127, and why in `err`. Any thread.
Child RunChild(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace parkade::cli
