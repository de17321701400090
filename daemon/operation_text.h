// How an operation that has ended is told: names, phases, and its line in the log.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/operations.h"

namespace parkade::daemon {

// "pause", "write_behind".
const char* KindName(OperationKind kind);

// Where the bytes of one process went or came from: "host", "disk", "both", or "none".
const char* TargetOf(const Outcome& outcome);

// The phases that were measured, in their order, with their seconds; "total" last.
std::vector<std::pair<const char*, double>> PhasesOf(const Outcome& outcome);

// One line at level info, or warning of one that failed: a sentence, and its figures as members of
// a line of JSON.
void LogEnded(const OperationView& operation);

}  // namespace parkade::daemon
