// How the answer to a dry run is shown.
#pragma once

#include "cli/context.h"
#include "proto/control.pb.h"

namespace parkade::cli {

// Prints what would move, how long it would take and what would refuse it; kExitOk where nothing
// would, else the exit code of the first refusal.
int PrintForecast(const v1::Forecast& forecast, const Context& context);

}  // namespace parkade::cli
