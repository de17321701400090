// Best fit with coalescing over two ordered sets of free parts.
#include "shim/heap/slab.h"

#include <iterator>

namespace parkade::shim {

Slab::Slab(Bytes bytes, const SizeClass& size_class) : bytes_(bytes), size_class_(size_class) {
  AddFree(0, bytes);
}

std::optional<Bytes> Slab::Take(Bytes bytes) {
  const Bytes taken = RoundUp(bytes, size_class_.step);
  const auto best = by_size_.lower_bound({taken, 0});
  if (best == by_size_.end()) return std::nullopt;
  const auto [size, offset] = *best;
  by_size_.erase(best);
  free_.erase(offset);
  if (size > taken) AddFree(offset + taken, size - taken);
  return offset;
}

void Slab::Give(Bytes offset, Bytes bytes) {
  Bytes size = RoundUp(bytes, size_class_.step);
  auto after = free_.lower_bound(offset);
  if (after != free_.end() && after->first == offset + size) {
    size += after->second;
    by_size_.erase({after->second, after->first});
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      by_size_.erase({before->second, before->first});
      free_.erase(before);
    }
  }
  AddFree(offset, size);
}

void Slab::AddFree(Bytes offset, Bytes bytes) {
  free_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

}  // namespace parkade::shim
