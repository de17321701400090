// What a caller orders, and what came of it: the control API without gRPC.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "daemon/deep.h"
#include "daemon/planner.h"
#include "daemon/selector.h"
#include "proto/wire.h"

namespace parkade::daemon {

class Process;

// Paused processes whose bytes in host memory are to go on to disk.
struct BehindOrder {
  struct Party {
    std::shared_ptr<Process> process;
    uint64_t number;  // of its write-behind; see Process::BeginBehind
  };
  std::vector<Party> parties;
  bool release_host = false;  // afterwards
};

// How the gates close for a pause, and what happens at them.
struct GateOrder {
  wire::GateMode mode = wire::GateMode::kClosed;
  wire::GatedWork work = wire::GatedWork::kBlock;
  wire::GatedAllocations allocations = wire::GatedAllocations::kAsWork;
  wire::OnExported exported = wire::OnExported::kBroker;
  uint64_t drain_timeout_ns = 30'000'000'000;
};

struct PauseOrder {
  Selector selector;
  Policies policies;
  GateOrder gate;
  std::string scratch_base;  // empty: none named
  Bytes chunk_bytes = 256_MiB;
  std::optional<wire::Elision> elision;  // empty: each process's own default
  bool deep = false;                     // then the driver's process checkpoint
  uint64_t epoch = 0;                    // of the caller; 0: it has none
  bool allow_empty = false;              // nobody selected is no error
  // Under write-behind: of the host memory that it leaves by; and what starts it for a caller when
  // all are paused, and returns the operation's id.
  bool release_host = false;
  bool for_turn = false;  // of others: it ends when a process is used
  std::function<std::string(const std::string& caller, const BehindOrder& order)> begin_behind = {};
};

struct ResumeOrder {
  Selector selector;
  bool release_host = false;
  uint64_t epoch = 0;
  uint64_t wait_timeout_ns = 0;        // for free HBM
  bool allow_empty = false;            // as in PauseOrder; nor is a tag that nobody has
  std::vector<std::string> tags = {};  // these alone, in this order; empty: all that is out
  wire::GateMode gate = wire::GateMode::kOpen;  // with tags, while something stays out
  int32_t priority = 0;                         // in the queue for HBM; higher goes first
};

// Free memory of a GPU to be kept from others; see ReserveRequest in control.proto.
struct ReserveOrder {
  std::string gpu_uuid;
  Bytes bytes = 0;
  std::string label;
  uint64_t ttl_ns = 0;  // 0: until it is released
  int32_t pid = 0;      // 0: of no process
  uint64_t wait_timeout_ns = 0;
  int32_t priority = 0;
};

// Backups to be read.
struct VerifyOrder {
  Selector selector;
  bool allow_empty = false;  // as in PauseOrder
};

// Backups on disk to be brought to host memory.
struct PrefetchOrder {
  Selector selector;
  bool allow_empty = false;            // as in PauseOrder; nor is a tag that nobody has
  std::vector<std::string> tags = {};  // of these alone, in this order; empty: all
};

// Where bytes of both sides of a handoff may be at one time; the numbers are those of the API.
enum class Overlap : uint32_t {
  kHost = 1,     // HBM changes hands piece by piece
  kGpu = 2,      // who comes in may take all free HBM at once
  kOrdered = 3,  // nothing comes in before all is out
};
constexpr bool IsOverlap(uint32_t v) { return v >= 1 && v <= 3; }

// One epoch for both sides.
struct HandoffOrder {
  PauseOrder outgoing;
  ResumeOrder incoming;
  Overlap overlap = Overlap::kHost;
};

// Ranges that need no look at the node. INVALID_ARGUMENT: BAD_POLICY, UNKNOWN_TAG, BAD_SIZE.
absl::Status Check(const PauseOrder& order);
absl::Status Check(const ResumeOrder& order);

// What the driver said of a GPU before and after.
struct GpuChange {
  std::string uuid;
  Bytes free_before = 0;
  Bytes free_after = 0;
  Bytes expected = 0;  // change that the ledgers predict, whichever way
  // Of a handoff: the most that its processes had there at once, and what they might; 0: all of it.
  Bytes peak = 0;
  Bytes allowed = 0;
};

// A block of a backup that is not what was stored; see WrongBlock in node.proto.
struct WrongBlock {
  uint64_t address = 0;
  Bytes bytes = 0;
  int device = 0;
  bool on_disk = false;
  uint32_t file = 0;
  uint64_t offset = 0;
  bool missing = false;
};

// What became of one process.
struct Outcome {
  int pid = 0;
  bool already = false;
  wire::ProcessState state = wire::ProcessState::kRunning;
  wire::Stats stats{};
  double wait_seconds = 0;  // for free HBM
  double total_seconds = 0;
  Bytes residue_bytes = 0;  // the driver still counts for it; 0: unknown
  std::vector<GpuChange> gpus;
  std::string reservation = {};               // of a Reserve, which has no process: its id
  std::string write_behind = {};              // of a pause: the operation that moves its bytes on
  std::vector<WrongBlock> wrong_blocks = {};  // the first of stats.wrong_blocks
  DeepOutcome deep = {};
};
using Outcomes = std::vector<Outcome>;

}  // namespace parkade::daemon
