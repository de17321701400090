// Slab: which parts of a shared range are taken; knows numbers alone, no memory and no driver.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/bytes.h"

namespace parkade::shim {

// One kind of slab. Requests of up to `largest` bytes go into slabs of the first class that takes
// them; what is larger has a range of its own.
struct SizeClass {
  Bytes largest;
  Bytes step;  // blocks start at and are multiples of it
  Bytes first_slab;
  Bytes last_slab;  // a new slab is as large as all before it together, within these two
};
constexpr SizeClass kSizeClasses[] = {
    // 512: what frameworks expect of cudaMalloc, which promises 256.
    {1_MiB, 512, 2_MiB, 2_MiB},
    // 2 MiB: native memory of this size is aligned to it and takes multiples of it.
    {32_MiB, 2_MiB, 64_MiB, 256_MiB},
};
// Null: too large for a slab.
constexpr const SizeClass* SizeClassFor(Bytes bytes) {
  for (const SizeClass& c : kSizeClasses) {
    if (bytes <= c.largest) return &c;
  }
  return nullptr;
}

// Not thread-safe. Every call takes O(log n) in the number of free parts.
class Slab {
 public:
  // `bytes` is a multiple of the step of `size_class`, which is one of kSizeClasses.
  Slab(Bytes bytes, const SizeClass& size_class);

  // The offset of a block for `bytes` bytes: the smallest free part that holds it, its front.
  // Nothing when none does.
  std::optional<Bytes> Take(Bytes bytes);
  // Gives back what Take(bytes) placed at `offset`; free neighbours become one part.
  void Give(Bytes offset, Bytes bytes);

  Bytes bytes() const { return bytes_; }
  const SizeClass& size_class() const { return size_class_; }
  Bytes largest_free() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }
  bool empty() const { return largest_free() == bytes_; }

 private:
  void AddFree(Bytes offset, Bytes bytes);

  const Bytes bytes_;
  const SizeClass& size_class_;
  std::map<Bytes, Bytes> free_;                // offset to size; never two side by side
  std::set<std::pair<Bytes, Bytes>> by_size_;  // the same as (size, offset)
};

}  // namespace parkade::shim
