// The level of the log, for whoever changes it while others log.
#pragma once

#include "common/log.h"

namespace parkade {

// Any thread.
void SetLogLevel(LogLevel least);

}  // namespace parkade
