// GpuHash: hashes blocks where they are, in HBM, on a stream of its own beside the copies: first
// in, first out, 16 batches deep. The digests are those of HashBlock. It also says which blocks are
// one pattern again and again, and compares bytes.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "common/hash/block_hash.h"
#include "common/result.h"
#include "shim/cuda/driver.h"
#include "shim/heap/range.h"
#include "shim/kernels/hash_blocks.h"

namespace parkade::shim {

// One thread, which has the context current and is in relaxed capture mode.
class GpuHash {
 public:
  // The bytes of `extents` of the range at `base`, one after the other: 2 MiB at most.
  struct Block {
    CUdeviceptr base;
    std::span<const Extent> extents;
  };
  // What one batch holds. A block of 2 MiB has at most kMostParts / 2 extents, since they are
  // multiples of 4096 and no two lie side by side.
  static constexpr size_t kMostBlocks = 256;
  static constexpr size_t kMostParts = 2 * PARKADE_HASH_PARTS;

  // For the current context. An error, which does no harm: the driver takes no kernel of ours, or
  // has no memory for it, or the shim was built without; the CPU has to hash.
  static Result<std::unique_ptr<GpuHash>> Open(const Driver& driver);
  // Waits for what is in flight. On any thread, whatever context is current there.
  ~GpuHash();
  void Forget() { module_ = nullptr; }
  GpuHash(const GpuHash&) = delete;
  GpuHash& operator=(const GpuHash&) = delete;

  bool idle() const { return in_flight_ == 0; }
  bool full() const { return in_flight_ == kDepth; }

  // Starts hashing the blocks, at least one, once `after` has come to pass (null: at once). Not
  // when full.
  Result<void> Queue(std::span<const Block> blocks, CUevent after);
  // Whether the oldest batch has been hashed. There is one.
  bool OldestIsDone() const;
  // Blocks until it is. The answers, one for each block, stand until the next Queue.
  Result<std::span<const HashedBlock>> WaitOldest();
  // Waits for everything and forgets it; ignores errors, as CopyLane::Drain.
  void Drain();

  // What a block is to be compared with: as many bytes, which the GPU can read, or a pattern of 16
  // bytes.
  struct Twin {
    Block block;
    const char* bytes;  // null: the pattern
    const uint64_t* pattern;
  };
  // For each whether it is equal. Blocks until the GPU has compared them.
  Result<std::vector<bool>> Compare(std::span<const Twin> twins);

 private:
  static constexpr size_t kDepth = 16;

  // In pinned memory, which the GPU reads and writes.
  struct Slot {
    HashPart parts[kMostParts];
    HashBlockParts blocks[kMostBlocks];
    HashedBlock results[kMostBlocks];
  };
  struct CompareSlot {
    ComparePart parts[kMostParts];
    uint32_t differs[kMostBlocks];
  };
  struct Pinned {
    Slot slots[kDepth];
    CompareSlot compare;
  };

  explicit GpuHash(const Driver& driver) : driver_(driver) {}
  Result<void> Load();
  Result<void> CompareSome(std::span<const Twin> twins, std::vector<bool>& equal);

  const Driver& driver_;
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction hash_ = nullptr;
  CUfunction compare_ = nullptr;
  CUstream stream_ = nullptr;
  Pinned* pinned_ = nullptr;
  std::array<CUevent, kDepth> events_{};  // made when first needed
  std::array<size_t, kDepth> blocks_{};
  size_t oldest_ = 0;
  size_t in_flight_ = 0;
};

inline Digest DigestOf(const HashedBlock& found) { return {found.digest[0], found.digest[1]}; }

// For the thread's current context, from the shelf or made, or null: the crew has to hash, which
// the ledger then says.
struct MoveTools;
std::unique_ptr<GpuHash> OpenGpuHash(MoveTools& tools);

}  // namespace parkade::shim
