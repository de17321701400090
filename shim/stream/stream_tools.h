// StreamTools: what the lanes and the engine of one store share.
#pragma once

#include <atomic>
#include <vector>

#include "common/io/direct_files.h"
#include "common/store/layout.h"
#include "common/store/records.h"
#include "shim/cuda/driver.h"
#include "shim/heap/ledger_writer.h"
#include "shim/pause/copy_lane.h"
#include "shim/pause/disk_stage.h"
#include "shim/pause/host_pool.h"
#include "shim/pause/shelf.h"
#include "shim/stream/disk_turn.h"
#include "shim/stream/store_sheet.h"

namespace parkade::shim {

// The device memory of one slot: a bucket's segments as they stand in its live file, the bits of
// its tie map, its fp32 views, and what kernels find out (slot_memory.h).
struct StreamSlot {
  CUdeviceptr base = 0;
  CUdeviceptr ties = 0;
  CUdeviceptr views = 0;
  CUdeviceptr findings = 0;
  CUevent ready = nullptr;    // its bucket's last bytes have come in
  CUevent updated = nullptr;  // the caller's work on it is done
};

// Where the segments end, in a live file and in a slot: a multiple of 4096.
inline Bytes SegmentsEnd(const store::Bucket& bucket) {
  const store::Area& last = bucket.segments.back();
  return RoundUp(last.offset + last.bytes, store::kFileAlign);
}

struct StreamTools {
  const Driver& driver;
  const CUcontext context;
  HostPool& pool;
  LedgerWriter& ledger;
  StoreSheet& sheet;
  Shelf<LaneGear>& shelf;
  const store::Layout& layout;
  const DirectFiles& files;       // none: every bucket is in host memory
  store::StateFile* const state;  // the write lane's; null: none
  const MakeEngine make_engine;
  const Bytes lane_bytes;                       // of host memory that a lane's bytes pass through
  std::vector<std::vector<HostBlock>> in_host;  // by bucket, in order; empty: it is in a file
  std::vector<StreamSlot> slots;                // changes only while no step is under way
  DiskTurn turn;
  const uint64_t most_numel;                              // of the largest bucket
  std::atomic<uint64_t> read_bytes{0}, written_bytes{0};  // in all, between files and memory

  const store::Bucket& bucket(uint32_t number) const { return layout.buckets()[number]; }
};

}  // namespace parkade::shim
