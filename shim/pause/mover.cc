// The steps of an evict and a restore over all contexts.
#include "shim/pause/mover.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "common/timeline.h"
#include "shim/cuda/cuda_error.h"
#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"
#include "shim/libc/thread.h"
#include "shim/pause/evictor.h"
#include "shim/pause/one_piece.h"
#include "shim/pause/release_piece.h"

namespace parkade::shim {
namespace {

// Appends to the entry of `key`, which it makes when there is none.
template <typename Key, typename Value>
void AddTo(std::vector<std::pair<Key, std::vector<Value>>>& groups, Key key, Value value) {
  auto it = std::find_if(groups.begin(), groups.end(), [&](auto& g) { return g.first == key; });
  if (it == groups.end()) it = groups.insert(groups.end(), {key, {}});
  it->second.push_back(std::move(value));
}

// The error that made the others stop, or the first of all.
template <typename Lane>
const Lane* FirstCause(const std::vector<Lane>& lanes) {
  const Lane* cause = nullptr;
  for (const Lane& lane : lanes) {
    if (lane.result.ok()) continue;
    const bool stopped = lane.result.error().code == Code::kCancelled;
    if (cause == nullptr || (cause->result.error().code == Code::kCancelled && !stopped)) {
      cause = &lane;
    }
  }
  return cause;
}

struct EvictLane {
  std::unique_ptr<Evictor> evictor;
  int device;
  Result<void> result;
};

struct RestoreLane {
  std::unique_ptr<Restorer> restorer;
  int device;
  Result<void> result;
};

void Add(const MovedBytes& moved, MovedBytes* to) {
  to->host += moved.host;
  to->disk += moved.disk;
  to->elided += moved.elided;
}

// A stage for each context: together what one operation may take.
Bytes Share(Bytes stage_bytes, size_t lanes) {
  return stage_bytes / std::max<size_t>(lanes, 1) / kDirectAlign * kDirectAlign;
}

}  // namespace

Mover::Mover(const Driver& driver, const Contexts& contexts, DeviceMemory& memory, HostPool& pool,
             LedgerWriter& ledger, MakeEngine make_engine)
    : driver_(driver),
      memory_(memory),
      pool_(pool),
      ledger_(ledger),
      make_engine_(make_engine),
      shelves_(contexts) {}

template <typename Work>
void Mover::OnThreads(size_t count, Work work) {
  struct Task {
    Work* work;
    size_t index;
    static void Run(void* self) {
      Task& task = *static_cast<Task*>(self);
      (*task.work)(task.index);
    }
  };
  std::vector<Task> tasks;
  for (size_t i = 0; i < count; ++i) tasks.push_back({&work, i});
  std::vector<Thread> threads;
  // The caller does the first itself, and what no thread could be had for.
  for (size_t i = 1; i < count; ++i) {
    auto thread = Thread::Start("parkade-mover", Task::Run, &tasks[i]);
    if (thread.ok()) {
      threads.push_back(std::move(*thread));
    } else {
      work(i);
    }
  }
  if (count != 0) work(0);
}

Result<void> Mover::Evict(const EvictionOrder& order, const EvictionPlan& plan,
                          const DirectFiles& files, const std::atomic<bool>& abort,
                          MoveReport* report) {
  Bytes in_files = order.disk_bytes;
  if (in_files != 0) {
    for (const FilePart& part : plan.taken) in_files += part.bytes;
  }
  if (in_files > files.writable()) {
    return MakeError(Code::kResourceExhausted, "FILE_SIZE_LIMIT",
                     "%llu MiB for backup files, of which RLIMIT_FSIZE lets the process write %llu",
                     (unsigned long long)in_files >> 20,
                     (unsigned long long)files.writable() >> 20);
  }
  elision_ = plan.elision;
  Timeline timeline;
  for (Range* kept : order.kept) {
    if (kept->backing != nullptr && kept->backing->in_host_memory()) kept->backing.reset();
  }
  BlockPlan blocks;
  if (auto r = Plan(order, plan, files, &blocks); !r.ok()) return r;
  timeline.Ended("plan");
  const Result<void> moved = EvictAll(order, plan, files, blocks, abort, report);
  timeline.Ended("lanes and growth");
  timeline.Log("bytes out");
  stamps_ = files.size() != 0 ? StampsOf(files.fds()) : stamps_;
  if (!moved.ok()) return moved;
  for (const RangeMove& move : order.moves) {
    if (move.policy != wire::Policy::kDiscard) continue;
    if (abort.load(std::memory_order_acquire)) {
      return MakeError(Code::kCancelled, "CANCELLED", "the pause was undone");
    }
    if (auto r = Discard(*move.range, report); !r.ok()) return r;
  }
  return {};
}

Result<void> Mover::Plan(const EvictionOrder& order, const EvictionPlan& plan,
                         const DirectFiles& files, BlockPlan* blocks) {
  uint64_t last_files = files_number_;
  if (files.size() != 0) {
    // What somebody else has written to, grown or replaced since is not trusted to hold anything.
    if (stamps_ != StampsOf(files.fds())) last_files = 0;
    ++files_number_;
  }
  return PlanBlocks(order.moves, files, plan.disk_bytes, plan.taken, last_files, files_number_,
                    ledger_, blocks);
}

Result<void> Mover::EvictAll(const EvictionOrder& order, const EvictionPlan& plan,
                             const DirectFiles& files, BlockPlan& blocks,
                             const std::atomic<bool>& abort, MoveReport* report) {
  std::vector<std::pair<CUcontext, std::vector<RangeMove>>> by_context;
  for (const RangeMove& move : order.moves) {
    if (move.policy != wire::Policy::kDiscard) AddTo(by_context, move.range->context, move);
  }
  const Bytes stage_bytes = order.disk_bytes != 0 ? plan.chunk_bytes : 0;
  std::vector<HostPool::Need> needs;
  for (const auto& [context, moves] : by_context) {
    const Bytes blocks_bytes = plan.own ? 0 : blocks.new_host[context];
    needs.push_back({context, Share(stage_bytes, by_context.size()) + blocks_bytes});
  }
  pool_.BeginGrowth(needs);
  if (plan.own) {
    if (auto r = PlaceInOnePiece(order.moves, pool_); !r.ok()) {
      EndGrowth();
      return r;
    }
  }
  HashCrew crew(order.host_bytes + order.disk_bytes);
  MoveTools tools{driver_, memory_,           pool_,    ledger_,      files, make_engine_,
                  crew,    by_context.size(), shelves_, plan.elision, &abort};
  std::vector<EvictLane> lanes;
  for (auto& [context, moves] : by_context) {
    const int device = moves.front().range->device;
    lanes.push_back(
        {std::make_unique<Evictor>(tools, blocks.space ? &*blocks.space : nullptr, context,
                                   std::move(moves), Share(plan.chunk_bytes, by_context.size())),
         device,
         {}});
  }
  OnThreads(lanes.size(), [&lanes](size_t i) { lanes[i].result = lanes[i].evictor->Run(); });
  EndGrowth();
  for (const EvictLane& lane : lanes) {
    Add(lane.evictor->moved(), &report->moved);
    report->released_bytes += lane.evictor->released_bytes();
  }
  if (const EvictLane* cause = FirstCause(lanes)) {
    report->device = cause->device;
    return cause->result;
  }
  return {};
}

void Mover::EndGrowth() {
  pool_.EndGrowth();
  const auto warn = [this](const char* what, const std::optional<Error>& cause) {
    if (!cause) return;
    char line[320];
    snprintf(line, sizeof line, "%s, which is slower: %s", what, cause->what);
    ledger_.AddWarning(line);
  };
  warn("host memory is in part not pinned", pool_.refusal());
  warn("host memory need not lie near the GPU", pool_.misplaced());
}

Result<void> Mover::Discard(Range& range, MoveReport* report) {
  InShim ours;
  report->device = range.device;
  range.backing.reset();
  for (Piece& piece : range.pieces) {
    if (auto r = ReleasePiece(driver_, memory_, range, piece); !r.ok()) return r;
    report->released_bytes += piece.bytes;
    ledger_.AddShifted(range.device, -int64_t(piece.bytes));
  }
  ledger_.AddMoved(LiveBytes(range));
  report->device = -1;
  return {};
}

Result<void> Mover::Restore(std::span<Range* const> ranges, const DirectFiles& files,
                            Bytes stage_bytes, MoveReport* report) {
  auto arrival = BringIn(ranges, files, stage_bytes, nullptr, report);
  if (!arrival.ok()) return arrival.error();
  Keep(*arrival);
  return {};
}

Result<Arrival> Mover::BringIn(std::span<Range* const> ranges, const DirectFiles& files,
                               Bytes stage_bytes, Room& room, const std::atomic<bool>& abort,
                               MoveReport* report) {
  Turn turn{room, abort};
  return BringIn(ranges, files, stage_bytes, &turn, report);
}

Result<Arrival> Mover::BringIn(std::span<Range* const> ranges, const DirectFiles& files,
                               Bytes stage_bytes, Turn* turn, MoveReport* report) {
  InShim ours;
  Timeline timeline;
  Arrival arrival{{ranges.begin(), ranges.end()}, {}};
  std::vector<RangeReturn>& returns = arrival.returns;
  for (Range* range : ranges) {
    if (range->base == 0 && BytesOut(*range) != 0) {
      return CudaError(driver_, CUDA_ERROR_OUT_OF_MEMORY, "reserving addresses to restore %llu MiB",
                       (unsigned long long)range->bytes >> 20);
    }
    RangeReturn returning{range, {}};
    for (uint32_t i = 0; i < range->pieces.size(); ++i) {
      if (range->pieces[i].handle == 0) returning.pieces.push_back({i});
    }
    if (!returning.pieces.empty()) returns.push_back(std::move(returning));
  }
  if (turn == nullptr) {
    if (auto r = CreateHandles(returns, report); !r.ok()) return r.error();
  }
  timeline.Ended("create");
  std::vector<std::pair<CUcontext, std::vector<RangeReturn*>>> by_context;
  for (RangeReturn& returning : returns) AddTo(by_context, returning.range->context, &returning);
  const bool reads_files = std::any_of(returns.begin(), returns.end(), [](const RangeReturn& r) {
    return PlaceOf(*r.range) == wire::Place::kDisk;
  });
  if (reads_files) {
    std::vector<HostPool::Need> needs;
    for (const auto& [context, mine] : by_context) {
      needs.push_back({context, Share(stage_bytes, by_context.size())});
    }
    pool_.BeginGrowth(needs);
  }
  HashCrew crew(BytesOut(ranges));
  MoveTools tools{driver_,
                  memory_,
                  pool_,
                  ledger_,
                  files,
                  make_engine_,
                  crew,
                  by_context.size(),
                  shelves_,
                  elision_,
                  turn != nullptr ? &turn->abort : nullptr};
  tools.room = turn != nullptr ? &turn->room : nullptr;
  tools.poisons = poisons_;
  std::vector<RestoreLane> lanes;
  for (auto& [context, mine] : by_context) {
    const int device = mine.front()->range->device;
    lanes.push_back({std::make_unique<Restorer>(tools, context, std::move(mine),
                                                Share(stage_bytes, by_context.size())),
                     device,
                     {}});
  }
  OnThreads(lanes.size(), [&lanes](size_t i) { lanes[i].result = lanes[i].restorer->Run(); });
  timeline.Ended("lanes");
  EndGrowth();
  timeline.Ended("growth ends");
  timeline.Log("bytes in");
  if (const RestoreLane* cause = FirstCause(lanes)) {
    report->device = cause->device;
    TakeBack(returns);
    const bool no_room = turn != nullptr && cause->result.error().cuda == CUDA_ERROR_OUT_OF_MEMORY;
    if (no_room) return NoRoom(returns, cause->device, report);
    return cause->result.error();
  }
  hashed_on_gpu_ = true;
  for (const RestoreLane& lane : lanes) {
    Add(lane.restorer->moved(), &report->moved);
    hashed_on_gpu_ = hashed_on_gpu_ && lane.restorer->hashed_on_gpu();
  }
  for (const RangeReturn& returning : returns) {
    for (const Incoming& incoming : returning.pieces) {
      report->released_bytes += returning.range->pieces[incoming.piece].bytes;
    }
  }
  return arrival;
}

void Mover::Keep(Arrival& arrival) {
  for (RangeReturn& returning : arrival.returns) {
    for (const Incoming& incoming : returning.pieces) {
      returning.range->pieces[incoming.piece].handle = incoming.handle;
    }
  }
}

bool Mover::Keeps(const Range& range) const {
  if (range.saving == Saving::kNone) return elision_ != wire::Elision::kOff && hashed_on_gpu_;
  return retains_ && IsToHost(range.saving) && range.backing->in_one_piece() != nullptr;
}

void Mover::KeepBacking(Range& range) const {
  if (range.backing == nullptr) return;
  if (!Keeps(range)) {
    range.backing.reset();
  } else {
    static_cast<RangeBacking&>(*range.backing).Retain(true);
  }
}

Result<void> Mover::CreateHandles(std::vector<RangeReturn>& returns, MoveReport* report) {
  for (RangeReturn& returning : returns) {
    Range& range = *returning.range;
    for (Incoming& incoming : returning.pieces) {
      const CUresult result =
          memory_.CreateAgain(range, range.pieces[incoming.piece].bytes, &incoming.handle);
      if (result == CUDA_SUCCESS) {
        ledger_.AddShifted(range.device, int64_t(range.pieces[incoming.piece].bytes));
        continue;
      }
      incoming.handle = 0;
      report->device = range.device;
      TakeBack(returns);  // so that the free bytes in the message are what others left
      if (result == CUDA_ERROR_OUT_OF_MEMORY) return NoRoom(returns, range.device, report);
      return CudaError(driver_, result, "creating GPU memory on device %d", range.device);
    }
  }
  return {};
}

// The undo of a restore: what was mapped is unmapped, what was created is released.
void Mover::TakeBack(std::vector<RangeReturn>& returns) {
  InShim ours;
  for (RangeReturn& returning : returns) {
    for (Incoming& incoming : returning.pieces) {
      const Piece& piece = returning.range->pieces[incoming.piece];
      // An address that stays mapped makes the next restore fail at its map: paused, no bytes lost.
      if (std::exchange(incoming.mapped, false)) memory_.UnmapAll(*returning.range, piece);
      if (const auto handle = std::exchange(incoming.handle, 0)) {
        driver_.mem_release(handle);
        ledger_.AddShifted(returning.range->device, -int64_t(piece.bytes));
      }
    }
  }
}

Error Mover::NoRoom(const std::vector<RangeReturn>& returns, int device, MoveReport* report) const {
  CUcontext context = nullptr;
  report->needed_bytes = 0;
  for (const RangeReturn& returning : returns) {
    if (returning.range->device != device) continue;
    context = returning.range->context;
    for (const Incoming& in : returning.pieces) {
      report->needed_bytes += returning.range->pieces[in.piece].bytes;
    }
  }
  size_t free = 0, total = 0;
  ScopedContext current(driver_, context);
  if (driver_.mem_get_info(&free, &total) != CUDA_SUCCESS) free = 0;
  report->free_bytes = free;
  Error e = MakeError(
      Code::kResourceExhausted, "GPU_MEMORY", "device %d: %llu MiB needed, %llu MiB free", device,
      (unsigned long long)report->needed_bytes >> 20, (unsigned long long)free >> 20);
  e.cuda = CUDA_ERROR_OUT_OF_MEMORY;
  return e;
}

}  // namespace parkade::shim
