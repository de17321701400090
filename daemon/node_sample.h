// NodeSample: who holds which memory of the node at one moment, for metrics and the timeline.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
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

// The sums of ledgers that have not changed since they were added up: a ledger of 10,000
// allocations takes some ms, and most looks find most of them as they were. One owner.
class KnownParts {
 public:
  using Key = std::pair<int, uint64_t>;  // pid and start
  using Read = std::function<absl::StatusOr<wire::LedgerView>()>;

  // `header` is the ledger's now. What a ledger says changes with it, a moment later or sooner: so
  // it is read until two looks in a row have found the same header. Nothing where it cannot be
  // read.
  std::vector<TagBytes> Of(const Key& key, const wire::LedgerHeader& header, const Read& read);
  // Forgets all others.
  void Keep(const std::set<Key>& living);

 private:
  struct Known {
    wire::LedgerHeader header;
    std::vector<TagBytes> parts;
    bool is_settled = false;
  };
  std::map<Key, Known> known_;
};

// Reads ledgers, the driver's figures and file systems now: some ms, more where processes with very
// many allocations have changed since `known`. Any thread.
NodeSample ReadNode(const Registry& registry, const Gpus& gpus, const ScratchRules& rules,
                    KnownParts& known);
// The same for somebody who looks once.
NodeSample ReadNode(const Registry& registry, const Gpus& gpus, const ScratchRules& rules);

}  // namespace parkade::daemon
