// SlabShelf: the slabs that requests of one size class, tag, device and context share.
//
// Chooses the slab for a request and keeps at most one empty slab. Not thread-safe: Heap::mu_
// guards it.
#pragma once

#include <array>
#include <compare>
#include <optional>
#include <set>
#include <utility>

#include "shim/heap/range.h"
#include "shim/heap/slab.h"

namespace parkade::shim {

class SlabShelf {
 public:
  struct Key {
    const SizeClass* size_class;
    int device;
    CUcontext context;
    std::array<char, sizeof Range::tag> tag;  // NUL-padded
    auto operator<=>(const Key&) const = default;
  };
  static Key KeyOf(const Range& slab_range);

  // A block for `bytes` bytes in the slab whose largest free part is the smallest that will do, so
  // that the emptier ones run empty.
  struct Block {
    Range* range;
    Bytes offset;
  };
  std::optional<Block> Take(Bytes bytes);
  // Gives a block back. When that empties its slab and another one is empty already, returns the
  // range, which is no longer on the shelf and is the caller's to destroy; else null.
  Range* Give(Range& range, Bytes offset, Bytes bytes);

  // Whether the slab may be used: a new one and one that has come back is put up, one that moves
  // out is taken down (no effect when it is not up). Blocks of a slab that is down are given back
  // to the slab itself.
  void PutUp(Range& range);
  void TakeDown(Range& range);

  // The slab that is up and empty, or null.
  Range* empty() const { return empty_; }

  // Bytes of the slabs that exist, up or not.
  void CountSlab(Bytes bytes) { slab_bytes_ += bytes; }
  void UncountSlab(Bytes bytes) { slab_bytes_ -= bytes; }
  // How large the next slab of `size_class` is.
  Bytes NextSlabBytes(const SizeClass& size_class) const;
  bool unused() const { return slab_bytes_ == 0; }

 private:
  Bytes slab_bytes_ = 0;
  std::set<std::pair<Bytes, Range*>> by_room_;  // (largest free part, slab)
  Range* empty_ = nullptr;                      // also in by_room_
};

}  // namespace parkade::shim
