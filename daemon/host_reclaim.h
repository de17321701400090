// ReclaimHostMemory: gets back host memory that processes keep for their next pause, when another
// pause needs it.
#pragma once

#include "daemon/registry.h"

namespace parkade::daemon {

// Has one process that runs give back the host memory that it holds, with the backups kept there:
// of those that hold any, the one that was last ordered about longest ago. Blocks until it has, 10
// s at most. `asked` are left alone, and the one that is asked is added. False: nobody is left.
bool ReclaimHostMemory(Registry& registry, ProcessList& asked);

}  // namespace parkade::daemon
