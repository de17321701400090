// GpuHash: hashes chunks where they are, in HBM, on a stream of its own beside the copies: first
// in, first out, 32 chunks deep. The digests are those of HashBlock.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "common/hash/block_hash.h"
#include "common/result.h"
#include "shim/cuda/driver.h"
#include "shim/heap/range.h"
#include "shim/kernels/hash_blocks.h"

namespace parkade::shim {

// One thread, which has the context current and is in relaxed capture mode.
class GpuHash {
 public:
  // For the current context. An error, which does no harm: the driver takes no kernel of ours, or
  // has no memory for it, or the shim was built without; the CPU has to hash.
  static Result<std::unique_ptr<GpuHash>> Open(const Driver& driver);
  // Waits for what is in flight. On any thread, whatever context is current there.
  ~GpuHash();
  void Forget() { module_ = nullptr; }
  GpuHash(const GpuHash&) = delete;
  GpuHash& operator=(const GpuHash&) = delete;

  // Whether a chunk of so many extents can be hashed here.
  static bool Takes(size_t extents) { return extents <= kMostParts; }
  bool idle() const { return in_flight_ == 0; }
  bool full() const { return in_flight_ == kDepth; }

  // Starts hashing the bytes of `extents` of the range at `base`, one after the other, at most 32
  // MiB in all, once `after` has come to pass (null: at once). Not when full.
  Result<void> Queue(CUdeviceptr base, std::span<const Extent> extents, CUevent after);
  // Whether the oldest chunk's digests are there. There is one.
  bool OldestIsDone() const;
  // Blocks until they are. They stand until the next Queue.
  Result<std::span<const Digest>> WaitOldest();
  // Waits for everything and forgets it; ignores errors, as CopyLane::Drain.
  void Drain();

 private:
  static constexpr size_t kDepth = 32;
  static constexpr size_t kMostParts = 256;
  static constexpr size_t kMostBlocks = 16;

  // In pinned memory, which the GPU reads and writes.
  struct Slot {
    HashPart parts[kMostParts];
    Digest digests[kMostBlocks];
  };

  explicit GpuHash(const Driver& driver) : driver_(driver) {}
  Result<void> Load();

  const Driver& driver_;
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  CUstream stream_ = nullptr;
  Slot* slots_ = nullptr;
  std::array<CUevent, kDepth> events_{};  // made when first needed
  std::array<size_t, kDepth> blocks_{};
  size_t oldest_ = 0;
  size_t in_flight_ = 0;
};

// For the thread's current context, from the shelf or made, or null: the crew has to hash, which
// the ledger then says.
struct MoveTools;
std::unique_ptr<GpuHash> OpenGpuHash(MoveTools& tools);

}  // namespace parkade::shim
