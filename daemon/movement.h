// Movement: what the driver says of the GPUs concerned before and after a transition, and what of
// it belongs to each process.
#pragma once

#include <string>
#include <vector>

#include "daemon/gpu_account.h"
#include "daemon/gpus.h"
#include "daemon/member.h"
#include "daemon/orders.h"
#include "daemon/registry.h"

namespace parkade::daemon {

// HBM that the heaps of the processes hold now, as their ledgers say.
GpuAccount::ByGpu ResidentOf(const ProcessList& processes);

class Movement {
 public:
  // Takes the figures before. `gpus` outlives it.
  Movement(const Gpus& gpus, ProcessList processes);

  // Takes the figures after. The first waits until the driver shows what was released, 100 ms at
  // most.
  void WaitForRelease();
  void Look();

  Outcome OutcomeOf(const Member& member, wire::ProcessState goal, uint64_t arrived_ns) const;

 private:
  Bytes Expected(const std::string& uuid, const GpuAccount::ByGpu& now) const;

  const Gpus& gpus_;
  const ProcessList processes_;
  const GpuAccount::ByGpu before_resident_;
  GpuAccount::ByGpu after_resident_;
  std::vector<std::string> uuids_;
  GpuAccount::ByGpu before_, after_;
};

}  // namespace parkade::daemon
