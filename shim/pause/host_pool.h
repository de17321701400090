// HostPool: host memory that is kept between pauses and handed out in blocks, pinned as far as the
// driver pins it.
//
// Private anonymous huge pages, touched and registered slice by slice on several threads, so that
// the first slices are in use while the later ones are still being made; cuMemHostAlloc would pin
// at a thirtieth of that rate. A slice whose registration is refused is registered in smaller
// parts, and what is refused then stays pageable: slower, not less. A forked child does not have
// the memory.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/bytes.h"
#include "common/deadline.h"
#include "common/mutex.h"
#include "common/result.h"
#include "shim/cuda/driver.h"
#include "shim/libc/thread.h"
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
  // What a block is for: to keep bytes, or for bytes to pass through.
  enum class For : uint8_t { kBackup, kStage };
  // Maps memory as MapPages does; tests put their own in its place.
  using MapMemory = Result<char*> (*)(Bytes bytes);

  explicit HostPool(const Driver& driver, MapMemory map = MapPages);  // `driver` outlives it
  // Every block must be gone.
  ~HostPool();

  // Starts to grow until `free_bytes` are free, and returns; Take hands the memory out as it comes.
  // Registers under `context`, for every context. Ends by itself or when memory cannot be had (a
  // Take that needs it then says why). One growth at a time: the operation thread. What an earlier
  // growth could not pin is tried again.
  void BeginGrowth(Bytes free_bytes, CUcontext context);
  // Nobody needs more: waits until the growth's threads have finished the slices they are at.
  void EndGrowth();

  // A block of `least` to `want` bytes, multiples of 4096, aligned to 4096, pinned while there is
  // pinned memory. Waits for a growth under way, and without one makes a slice itself, under the
  // thread's current context. Once pinning has been refused, what is pinned and free then is kept
  // for stages. Any number of mover threads. RESOURCE_EXHAUSTED HOST_MEMORY or MEMLOCK;
  // DEADLINE_EXCEEDED.
  Result<HostBlock> Take(Bytes want, Bytes least, For purpose, Deadline by);

  // Gives slices without a block back to the system. Not during a growth: the operation thread.
  void Release();

  Bytes held() const;
  Bytes used() const;    // of it, in blocks
  Bytes pinned() const;  // of it, pinned
  // Why the driver first refused to pin memory, if it did.
  std::optional<Error> refusal() const;

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
    bool pinned;
    std::vector<Run> free;  // by offset, never adjacent
    Bytes free_bytes;
  };
  struct Growth {
    Bytes left = 0;
    Bytes slice_bytes = 0;
    CUcontext context = nullptr;
    char* memory = nullptr;  // mapped for what is left; null: each slice maps its own
    uint32_t threads = 0;    // still at work
    bool ended = false;      // nobody needs more
    std::optional<Error> error;
  };

  static void Grow(void* self);
  void GrowUntilDone();
  // Adds slices of `bytes` in all. `memory` is mapped already, or null.
  Result<void> AddSlices(char* memory, Bytes bytes, CUcontext context);
  std::vector<Slice> Pin(char* memory, Bytes bytes, CUcontext context);
  CUresult Register(char* memory, Bytes bytes) const;
  void Refused(CUresult result, Bytes bytes);
  void PinAgain(CUcontext context);
  void UnmapRest() REQUIRES(mu_);
  void Unmake(const Slice& slice) const;
  std::optional<HostBlock> Cut(Bytes want, Bytes least, For purpose) REQUIRES(mu_);
  std::optional<HostBlock> CutFrom(Slice& slice, Bytes want, Bytes least) REQUIRES(mu_);
  Bytes FreeBytes() const REQUIRES(mu_);
  Bytes PinnedFreeBytes() const REQUIRES(mu_);
  void GiveBack(char* memory, Bytes bytes);

  const Driver& driver_;
  const MapMemory map_;
  mutable Mutex mu_;  // innermost; no driver call and no page is touched while it is held
  CondVar changed_;
  std::vector<Slice> slices_ GUARDED_BY(mu_);
  Growth growth_ GUARDED_BY(mu_);
  bool pins_ GUARDED_BY(mu_) = true;  // false: the driver has refused in this growth
  Bytes for_stages_ GUARDED_BY(mu_) = 0;
  std::optional<Error> refusal_ GUARDED_BY(mu_);
  std::vector<Thread> threads_;  // operation thread
};

}  // namespace parkade::shim
