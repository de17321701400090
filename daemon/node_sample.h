// NodeSample: who holds which memory of the node at one moment, for metrics and the timeline.
#pragma once

#include <string>
#include <vector>

#include "common/bytes.h"
#include "daemon/gpus.h"
#include "daemon/host_memory.h"
#include "daemon/process.h"
#include "daemon/registry.h"
#include "daemon/scratch_base.h"

namespace parkade::daemon {

// Tags of what a process holds of HBM beside its tagged allocations.
constexpr char kForeignTag[] = "(foreign)";  // seen and never moved
constexpr char kSlackTag[] = "(slack)";      // of its heap, beyond what was asked for

// Bytes of one process that are in one place.
struct TagBytes {
  std::string gpu_uuid;  // that they are on, or come back to
  std::string tag;
  wire::Place place = wire::Place::kGpu;  // kGpu, kHost, kDisk
  Bytes bytes = 0;
};

struct ProcessSample {
  ProcessView view;
  std::vector<TagBytes> parts;  // by gpu, tag and place; each once
  Bytes resident_bytes = 0;     // host memory, as the kernel counts it
};

struct NodeSample {
  uint64_t time_ns = 0;  // CLOCK_REALTIME
  std::vector<GpuView> gpus;
  HostMemory host;
  std::vector<BaseReport> bases;
  std::vector<ProcessSample> processes;
};

// Adds up a ledger. Its figures are claims of its process.
std::vector<TagBytes> PartsOf(const wire::LedgerView& ledger);

// Reads ledgers, the driver's figures and file systems now: some ms, more where a process has very
// many allocations. Any thread.
NodeSample ReadNode(const Registry& registry, const Gpus& gpus, const ScratchRules& rules);

}  // namespace parkade::daemon
