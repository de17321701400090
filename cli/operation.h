// How operations stand in tables, for the verbs that show them.
#pragma once

#include <string>

#include "cli/context.h"
#include "proto/control.pb.h"

namespace parkade::cli {

using OperationList = google::protobuf::RepeatedPtrField<v1::Operation>;

// Prints a row for each; JSON if asked for.
void PrintOperations(const OperationList& operations, const Context& context);

// What has become of it in a few words: how far it is, its results' bytes, or why it failed.
std::string OutcomeOf(const v1::Operation& operation);

}  // namespace parkade::cli
