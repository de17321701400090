// What pause and resume print: the table of what they did.
#pragma once

#include "cli/context.h"
#include "proto/control.pb.h"

namespace parkade::cli {

using Results = google::protobuf::RepeatedPtrField<v1::TransitionResult>;

// Prints what moved where, in how long, and what the driver says about the GPUs; JSON if asked for.
void PrintResults(const Results& results, const Context& context);

}  // namespace parkade::cli
