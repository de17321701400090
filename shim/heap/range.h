// Range: one reserved address range with the physical handles behind it, the unit that pause moves.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "proto/ledger.h"
#include "shim/heap/pointer_answers.h"
#include "shim/heap/slab.h"

namespace parkade::shim {

// Numbers of ours that stand for the driver's ids of buffers, which it counts from 1.
constexpr unsigned long long kOurBufferIds = 1ull << 62;

// One physical handle; always mapped whole, at `offset` in its range.
struct Piece {
  Bytes offset;
  Bytes bytes;                          // multiple of the device's granularity, at most kMaxPiece
  CUmemGenericAllocationHandle handle;  // 0 while the piece is out
};
constexpr Bytes kMaxPiece = 512_MiB;  // larger handles would stop pause and handoff from pipelining

// A part of a range that holds live bytes; offset and length are multiples of 4096, so that the
// same extent suits direct I/O.
struct Extent {
  Bytes offset;
  Bytes bytes;
};

inline bool SameLocation(const CUmemLocation& a, const CUmemLocation& b) {
  return a.type == b.type && a.id == b.id;
}

// A place where the application has mapped a handle of its own, or the shim for the time of a move.
struct Mapping {
  CUdeviceptr at;
  std::vector<CUmemAccessDesc> access;  // as set so far, an entry for each location; empty: none
  uint64_t number;                      // unique in the process
  std::unique_ptr<const PointerAnswers> answers;  // the driver's, while the range is out or moving
};

// What tells memory that the application made and maps itself (virtual_memory.h) from the heap's:
// how to make it again, and where it belongs. Its addresses are the application's.
struct Adopted {
  CUmemAllocationProp prop;
  unsigned long long flags;
  std::vector<Mapping> mappings;  // of the range's one piece; M, but constant while it is moving
};

// A part of the files of a pause.
struct FilePart {
  uint32_t file;
  uint64_t offset;
  Bytes bytes;
};

// Where a range's bytes are while it is out, and were when it last was. Owned by the range, made by
// pause/; destroying it gives host memory back and forgets file space, so that freeing a paused
// allocation needs no GPU call.
class Backing {
 public:
  virtual ~Backing() = default;
  // Whether it holds host memory with bytes.
  virtual bool in_host_memory() const = 0;
  // Adds the parts of files that hold bytes. Under the lock of the range's tables.
  virtual void AddFileParts(std::vector<FilePart>& parts) const = 0;
  // Where all bytes of the range lie in host memory in one piece, in their order; null when they do
  // not.
  virtual const char* in_one_piece() const = 0;
  // What the ledger says of a range that is out: the slowest place that holds a part of it.
  virtual wire::Place place() const = 0;
};

// What becomes of a range's bytes in a pause that the program asks for itself, as it said when it
// allocated them (saver_settings.h).
enum class Saving : uint8_t {
  kNone,  // no such pause takes it
  kDiscard,
  kPinned,    // to host memory in one piece
  kPageable,  // the same, not pinned
  kDisk,
};
inline bool IsToHost(Saving saving) {
  return saving == Saving::kPinned || saving == Saving::kPageable;
}

enum class RangeState : uint8_t {
  kResident,
  kMoving,  // between the first and the last step of an evict or restore
  kOut,     // nothing mapped, bytes in `backing`
};

// Fields marked M are guarded by Heap::mu_, of adopted ranges by VirtualMemory::mu_; the others are
// constant after creation, but for `pieces` handles, `extents` and `backing`, which belong to
// whoever has the range in kMoving. The backing of a range in kResident is M; that of one in kOut
// is changed by nobody but whoever has it `reading`.
struct Range {
  CUdeviceptr base = 0;         // adopted: where its bytes are copied, set when it begins to move
  Bytes bytes = 0;              // reserved and mapped; multiple of the granularity
  int device = 0;               // CUdevice ordinal
  CUcontext context = nullptr;  // that was current when it was made
  uint64_t number = 0;          // unique in the process: tells it from a later one at its addresses
  uint64_t pause = 0;           // that moved it out last; of whoever has the range in kMoving
  char tag[32] = {};
  Saving saving = Saving::kNone;
  std::vector<Piece> pieces;                 // by offset, without gaps
  std::unique_ptr<Slab> slab;                // M; null: one allocation owns the range
  RangeState state = RangeState::kResident;  // M
  wire::Place place = wire::Place::kGpu;     // M; as its ledger records say
  Bytes counted = 0;                         // M; physical bytes of it in the ledger
  bool reading = false;                      // M; out, and pause/ has its backing
  bool doomed = false;                       // M; its last allocation was freed while it was in use
  uint32_t live = 0;                         // M; allocations in it
  uint32_t holds = 0;                        // M; imports and registrations: it must not move
  std::unique_ptr<Adopted> adopted;          // null: the heap's own memory
  std::vector<Extent> extents;               // filled when it begins to move out
  std::unique_ptr<Backing> backing;

  // M; whether pause/ works with it: what it no longer needs goes when that has ended.
  bool in_use() const { return state == RangeState::kMoving || reading; }
};

// Which ranges shall move.
struct Wanted {
  std::vector<std::string> tags = {};  // in this order; empty: every tag
  uint64_t pause = 0;                  // those that this one has moved out; 0: whichever it was

  // The place of a tag in the order.
  size_t TurnOf(const Range& range) const {
    const auto at = std::find(tags.begin(), tags.end(), std::string_view(range.tag));
    return size_t(at - tags.begin());
  }
  bool Has(const Range& range) const {
    return (tags.empty() || TurnOf(range) != tags.size()) && (pause == 0 || range.pause == pause);
  }
};

// Takes the backing of a resident range that keeps host memory, but for a copy that the program
// retains and may be reading. Under the lock that guards M.
inline void TakeHostBacking(Range& range, std::vector<std::unique_ptr<Backing>>& taken) {
  if (IsToHost(range.saving)) return;
  const bool resident = range.state == RangeState::kResident && range.backing != nullptr;
  if (resident && range.backing->in_host_memory()) taken.push_back(std::move(range.backing));
}

// What a range that is out has in files. Under the same lock.
inline void AddFilePartsOut(const Range& range, std::vector<FilePart>& parts) {
  if (range.state != RangeState::kOut || range.backing == nullptr) return;
  range.backing->AddFileParts(parts);
}

}  // namespace parkade::shim
