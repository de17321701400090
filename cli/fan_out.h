// FanOut: one verb on the daemons of many nodes, each by another run of this program.
#pragma once

#include <string>
#include <vector>

#include "cli/context.h"

namespace parkade::cli {

// Runs `verb` with `arguments`, as the user gave them, on every node of globals.nodes, at most 128
// at once, and prints each node's answer. Of pause, resume and handoff all nodes are asked first
// what it would do (--dry-run), and nothing moves where one refuses or does not answer; where one
// fails after all, a pause or handoff is taken back on the others. Returns the exit code of the
// first node that failed, in their order; kExitUsage for a verb that is about this node alone.
int FanOut(const std::string& verb, std::vector<std::string> arguments, const Context& context);

}  // namespace parkade::cli
