// HostPool: host memory that is kept between pauses and handed out in blocks, pinned as far as the
// driver pins it.
//
// Private anonymous huge pages, touched and registered slice by slice on several threads, so that
// the first slices are in use while the later ones are still being made; cuMemHostAlloc would pin
// at a thirtieth of that rate. A slice whose registration is refused is registered in smaller
// parts, and what is refused then stays pageable: slower, not less. Memory lies on the NUMA node of
// the GPU that it is for, where the kernel lets us say so. A forked child does not have the memory.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/deadline.h"
#include "common/mutex.h"
#include "common/result.h"
#include "shim/cuda/driver.h"
#include "shim/libc/thread.h"
#include "shim/pause/gpu_node.h"
#include "shim/pause/host_slice.h"

namespace parkade::shim {

class HostPool;

// A part of the pool's memory; gives it back when destroyed, on any thread, without a driver call.
class HostBlock {
 public:
  HostBlock() = default;
  HostBlock(HostBlock&& other) noexcept;
  HostBlock& operator=(HostBlock&& other) noexcept;
  ~HostBlock();

  char* memory() const { return memory_; }
  Bytes bytes() const { return bytes_; }
  // Whether the GPU copies to and from it without its driver's own staging.
  bool pinned() const { return pinned_; }
  explicit operator bool() const { return pool_ != nullptr; }
  // The first `bytes` of it, at most bytes(), as a block of their own; this one has the rest.
  HostBlock Split(Bytes bytes);
  // Takes over `next`, which lies behind it in the block that both were split from.
  void Join(HostBlock&& next);
  // The pool never gets it back.
  void Abandon() { pool_ = nullptr; }

 private:
  friend class HostPool;
  HostBlock(HostPool* pool, char* memory, Bytes bytes, bool pinned)
      : pool_(pool), memory_(memory), bytes_(bytes), pinned_(pinned) {}

  HostPool* pool_ = nullptr;
  char* memory_ = nullptr;
  Bytes bytes_ = 0;
  bool pinned_ = false;
};

class HostPool {
 public:
  // What a block is for: to keep bytes, or for bytes to pass through, as they do through fewer
  // blocks too (kMoreStage).
  enum class For : uint8_t { kBackup, kStage, kMoreStage };
  // No slice is smaller that a growth makes, but for the last.
  static constexpr Bytes kLeastSlice = 8_MiB;
  // Maps memory as MapPages does; tests put their own in its place.
  using MapMemory = Result<char*> (*)(Bytes bytes);
  using NodeOf = int (*)(const Driver& driver, CUdevice device);

  // `driver` outlives it.
  explicit HostPool(const Driver& driver, MapMemory map = MapPages, NodeOf node_of = GpuNode);
  // Every block must be gone.
  ~HostPool();

  // What is to be free for the GPU of a context.
  struct Need {
    CUcontext context;
    Bytes bytes;
  };
  // Starts to grow until as many bytes are free as all needs have together, each as far as it goes
  // on its GPU's node, and returns; Take hands the memory out as it comes. Registers under the
  // need's context, for every context. Ends by itself or when memory cannot be had (a Take that
  // needs it then says why). Operation thread. A growth under way goes on with these needs in place
  // of its own. What an earlier growth could not pin is tried again.
  void BeginGrowth(const std::vector<Need>& needs);
  // Nobody needs more: waits until the growth's threads have finished the slices they are at.
  void EndGrowth();
  // Grows beside an application that works, with few threads and small slices, and waits until all
  // is there or `stop` is true; threads then finish the slices they are at by themselves.
  void Warm(const std::vector<Need>& needs, const std::atomic<bool>& stop);

  // A block of `least` to `want` bytes, multiples of 4096, aligned to 4096, pinned while there is
  // pinned memory, near the GPU of the thread's current context where the pool knows it. Waits for
  // a growth under way, and without one makes a slice itself, under the thread's current context.
  // For kMoreStage none is made while as much is free in smaller pieces: HOST_MEMORY.
  // Once pinning has been refused, what is pinned and free then is kept for stages. Any number of
  // mover threads. RESOURCE_EXHAUSTED HOST_MEMORY or MEMLOCK; DEADLINE_EXCEEDED.
  Result<HostBlock> Take(Bytes want, Bytes least, For purpose, Deadline by);

  // Host memory that lies in one piece of addresses.
  struct OnePiece {
    CUcontext context;  // for whose GPU it is
    Bytes bytes;
    bool pinned;  // as far as the driver pins it
  };
  // Makes new memory for each, on several threads, and returns it in the order of its addresses, in
  // blocks that end at multiples of 2 MiB. All or nothing: RESOURCE_EXHAUSTED HOST_MEMORY or
  // MEMLOCK. Operation thread; a growth may be under way.
  Result<std::vector<std::vector<HostBlock>>> MakePieces(const std::vector<OnePiece>& pieces);

  // Gives slices without a block back to the system. Not during a growth: the operation thread.
  void Release();

  Bytes held() const;
  Bytes used() const;    // of it, in blocks
  Bytes pinned() const;  // of it, pinned
  // Why the driver first refused to pin memory, if it did.
  std::optional<Error> refusal() const;
  // Why the kernel first refused to have memory near a GPU, if it did.
  std::optional<Error> misplaced() const;

 private:
  friend class HostBlock;

  struct Run {
    Bytes offset;
    Bytes bytes;
  };
  struct Slice {
    char* memory;
    Bytes bytes;
    CUcontext context;
    int node;
    bool pinned;
    std::vector<Run> free;  // by offset, never adjacent
    Bytes free_bytes;
    bool stays_pageable = false;  // it was asked for so
  };
  // Memory that is still to be made for one GPU.
  struct Part {
    CUcontext context;
    int node;
    Bytes left;
    char* memory;  // mapped for what is left; null: each slice maps its own
  };
  struct Growth {
    std::vector<Part> parts;
    size_t turn = 0;        // the part that gives the next slice
    Bytes slice_bytes = 0;  // of the next one
    Bytes most_slice = 0;   // to which they grow
    uint32_t slices = 0;    // begun
    uint32_t round = 1;     // slices after which they grow: one for each thread
    Bytes in_making = 0;    // taken from the parts, and no slice yet
    uint32_t threads = 0;   // still at work
    bool ended = false;     // nobody needs more
    std::optional<Error> error;

    Bytes left() const;
    Part* Next();  // with something left, each in its turn; null: none has
  };

  struct Making;

  enum class Pace : uint8_t { kAll, kBeside };
  void Begin(const std::vector<Need>& needs, Pace pace);
  void StopGrowth() REQUIRES(mu_);
  static void Grow(void* self);
  void GrowUntilDone();
  int AskNode(CUcontext context) const;
  int KnownNode(CUcontext context) const REQUIRES(mu_);
  // What of the needs is not there yet, by node.
  std::vector<Part> Missing(const std::vector<Need>& needs) const REQUIRES(mu_);
  Result<char*> Map(Bytes bytes, int node, std::optional<Error>* misplaced) const;
  // Slices of what is `left` of the part, which is its own. Its memory is mapped already, or null.
  Result<std::vector<Slice>> MakeSlices(const Part& part);
  std::vector<Slice> Pin(const Part& part, char* memory);
  CUresult Register(char* memory, Bytes bytes) const;
  // Enters a slice that is all in one block.
  HostBlock EnterTaken(Slice slice);
  void Refused(CUresult result, Bytes bytes);
  void PinAgain(CUcontext context);
  void DropParts() REQUIRES(mu_);
  void Unmake(const Slice& slice) const;
  enum class Reach : uint8_t { kNear, kFar };  // whether memory of other nodes will do
  std::optional<HostBlock> Cut(Bytes want, Bytes least, For purpose, int node, Reach reach)
      REQUIRES(mu_);
  std::optional<HostBlock> CutFrom(Slice& slice, Bytes want, Bytes least) REQUIRES(mu_);
  Bytes FreeBytes() const REQUIRES(mu_);
  Bytes PinnedFreeBytes() const REQUIRES(mu_);
  void GiveBack(char* memory, Bytes bytes);

  const Driver& driver_;
  const MapMemory map_;
  const NodeOf node_of_;
  mutable Mutex mu_;  // innermost; no driver call and no page is touched while it is held
  CondVar changed_;
  std::vector<Slice> slices_ GUARDED_BY(mu_);
  Growth growth_ GUARDED_BY(mu_);
  std::vector<std::pair<CUcontext, int>> nodes_ GUARDED_BY(mu_);  // as far as they have grown it
  bool pins_ GUARDED_BY(mu_) = true;  // false: the driver has refused in this growth
  Bytes for_stages_ GUARDED_BY(mu_) = 0;
  std::optional<Error> refusal_ GUARDED_BY(mu_);
  std::optional<Error> misplaced_ GUARDED_BY(mu_);
  std::vector<Thread> threads_;  // operation thread
};

}  // namespace parkade::shim
