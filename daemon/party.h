// Party: processes that take turns on GPUs as one, and what may be done with them. A process alone,
// or the ranks of one job and role of one user, who wait for each other anyway.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "daemon/gpu_queue.h"
#include "daemon/registry.h"

namespace parkade::daemon {

struct Party {
  enum class Standing {
    kIn,     // all run, and may be paused for others
    kOut,    // some are out for others' turn, and the others run: they may come back
    kHeld,   // somebody has paused one of them, and decides when it comes back
    kAlone,  // they take turns with nobody: an orchestrator moves them, a reservation names one, or
             // not all ask for it
    kAway,   // one is moving, or not connected now
  };

  std::string key;
  uid_t uid = 0;
  ProcessList processes;
  Standing standing = Standing::kAway;
  uint64_t came_in_ns = 0;  // the last of them, CLOCK_MONOTONIC
  ByGpu holds;              // HBM that a pause would give back
  ByGpu lacks;              // HBM that it takes to bring back what is out
  std::vector<int> Pids() const;
};

// The parties of these processes that have one that takes turns. `reserved`: pids that reservations
// name. Reads ledgers.
std::vector<Party> PartiesOf(const ProcessList& all, const std::set<int>& reserved);

}  // namespace parkade::daemon
