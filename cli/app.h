// The command line of `parkade` without the process around it, so that tests can call it.
#pragma once

#include <string>
#include <vector>

#include "cli/context.h"

namespace parkade::cli {

// Parses `arguments` (without the program's name), runs the verb and returns the exit code. `run`
// replaces the process instead of returning.
int RunCommandLine(std::vector<std::string> arguments, Terminal& terminal);

}  // namespace parkade::cli
