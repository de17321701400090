// Environment: where variables come from, the process's own or a test's.
#pragma once

namespace parkade::daemon {

// Looks up an environment variable; nullptr when unset.
using Environment = const char* (*)(const char* name);

}  // namespace parkade::daemon
