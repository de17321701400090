// Keeps slabs in the order of their largest free part.
#include "shim/heap/slab_shelf.h"

#include <algorithm>

namespace parkade::shim {

SlabShelf::Key SlabShelf::KeyOf(const Range& range) {
  Key key{&range.slab->size_class(), range.device, range.context, {}};
  std::copy_n(range.tag, sizeof range.tag, key.tag.data());
  return key;
}

std::optional<SlabShelf::Block> SlabShelf::Take(Bytes bytes) {
  const auto it = by_room_.lower_bound({bytes, nullptr});
  if (it == by_room_.end()) return std::nullopt;
  Range* range = it->second;
  by_room_.erase(it);
  if (range == empty_) empty_ = nullptr;
  const auto offset = range->slab->Take(bytes);
  by_room_.emplace(range->slab->largest_free(), range);
  if (!offset) return std::nullopt;
  return Block{range, *offset};
}

Range* SlabShelf::Give(Range& range, Bytes offset, Bytes bytes) {
  Slab& slab = *range.slab;
  by_room_.erase({slab.largest_free(), &range});
  slab.Give(offset, bytes);
  if (slab.empty() && empty_ != nullptr) return &range;
  if (slab.empty()) empty_ = &range;
  by_room_.emplace(slab.largest_free(), &range);
  return nullptr;
}

void SlabShelf::PutUp(Range& range) { by_room_.emplace(range.slab->largest_free(), &range); }

void SlabShelf::TakeDown(Range& range) {
  by_room_.erase({range.slab->largest_free(), &range});
  if (empty_ == &range) empty_ = nullptr;
}

Bytes SlabShelf::NextSlabBytes(const SizeClass& size_class) const {
  return std::clamp(slab_bytes_, size_class.first_slab, size_class.last_slab);
}

}  // namespace parkade::shim
