// MoveTools: what every thread of one evict or restore shares.
#pragma once

#include <atomic>

#include "shim/cuda/driver.h"
#include "shim/heap/device_memory.h"
#include "shim/heap/ledger_writer.h"
#include "shim/pause/copy_lane.h"
#include "shim/pause/file_space.h"
#include "shim/pause/gpu_hash.h"
#include "shim/pause/hash_crew.h"
#include "shim/pause/host_pool.h"
#include "shim/pause/room.h"
#include "shim/pause/stage.h"

namespace parkade::shim {

// What moves leave for later ones.
struct Shelves {
  explicit Shelves(const Contexts& contexts) : lanes(contexts), hashes(contexts) {}
  Shelf<LaneGear> lanes;
  Shelf<GpuHash> hashes;
};

struct MoveTools {
  const Driver& driver;
  DeviceMemory& memory;
  HostPool& pool;
  LedgerWriter& ledger;
  const DirectFiles& files;
  MakeEngine make_engine;
  HashCrew& crew;
  size_t lanes;  // contexts that move at once, each on a thread
  Shelves& shelves;
  wire::Elision elision;
  const std::atomic<bool>* abort;  // from outside; null: cannot be aborted
  std::atomic<bool> stop{false};   // a thread has failed: the others need not go on
  Room* room = nullptr;            // of a restore in turn: handles are created as it allows
  bool poisons = false;            // a restore fills what was discarded

  Stage StageOf(Bytes bytes) const { return {pool, files, make_engine, ledger, lanes, bytes}; }
  bool Stopping() const {
    return stop.load(std::memory_order_relaxed) ||
           (abort != nullptr && abort->load(std::memory_order_acquire));
  }
};

// Bytes that a thread has moved, by place.
struct MovedBytes {
  Bytes host = 0;
  Bytes disk = 0;
  Bytes elided = 0;  // neither copied nor written: unchanged, or one pattern
};

}  // namespace parkade::shim
