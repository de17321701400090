// Intersects ranges of local tensors in the global tensor.
#include "common/store/reshard_runs.h"

#include <algorithm>

namespace parkade::store {
namespace {

using ull = unsigned long long;

// How an entry's local tensor lies in the global one: slabs of `slab` consecutive elements, one
// every `stride`, the first at `offset`. A tensor that is not cut is one slab.
struct Slabs {
  uint64_t slab = 0, stride = 0, offset = 0;

  explicit Slabs(const Entry& entry) {
    uint64_t inner = 1;  // elements behind one index of the cut axis
    const size_t first = entry.tp_axis < 0 ? 0 : size_t(entry.tp_axis) + 1;
    for (size_t axis = first; axis < entry.local_shape.size(); ++axis) {
      inner *= entry.local_shape[axis];
    }
    if (entry.tp_axis < 0) {
      slab = stride = inner;
      return;
    }
    slab = entry.local_shape[size_t(entry.tp_axis)] * inner;
    stride = entry.global_shape[size_t(entry.tp_axis)] * inner;
    offset = entry.tp_offset * inner;
  }

  uint64_t Global(uint64_t local) const { return local / slab * stride + offset + local % slab; }
};

// Appends what of the global range [begin, end), whose first element is `wanted` there, the source
// holds.
void Intersect(const Entry& source, const Slabs& slabs, Run run, uint64_t begin, uint64_t end,
               std::vector<Run>& runs) {
  if (slabs.slab == 0 || source.flat_begin == source.flat_end) return;
  const uint64_t wanted = run.wanted;
  for (uint64_t row = begin / slabs.stride; row * slabs.stride < end; ++row) {
    const uint64_t row_at = row * slabs.stride + slabs.offset;  // global, of the row's slab
    const uint64_t local_at = row * slabs.slab;
    // The part of the slab that this rank owns.
    const uint64_t first = std::max(local_at, source.flat_begin);
    const uint64_t last = std::min(local_at + slabs.slab, source.flat_end);
    if (first >= last) {
      if (source.flat_end <= local_at) return;
      continue;
    }
    const uint64_t from = std::max(row_at + (first - local_at), begin);
    const uint64_t to = std::min(row_at + (last - local_at), end);
    if (from >= to) continue;
    run.source = local_at + (from - row_at);
    run.wanted = wanted + (from - begin);
    run.numel = to - from;
    runs.push_back(run);
  }
}

Error Refuse(const char* reason, const Entry& wanted, const char* what, uint64_t begin,
             uint64_t end) {
  return MakeError(Code::kFailedPrecondition, reason, "%.80s: elements %llu to %llu %s",
                   wanted.name.c_str(), ull(begin), ull(end), what);
}

}  // namespace

std::vector<Run> RunsOfWhole(const Entry& wanted, uint64_t begin, uint64_t end) {
  std::vector<Run> runs;
  const Slabs slabs(wanted);
  for (uint64_t at = begin; at < end;) {
    const uint64_t slab_end = std::min((at / slabs.slab + 1) * slabs.slab, end);
    runs.push_back({0, 0, slabs.Global(at), at, slab_end - at});
    at = slab_end;
  }
  return runs;
}

SourceIndex::SourceIndex(std::vector<const Layout*> sources) : layouts_(std::move(sources)) {
  for (uint32_t rank = 0; rank < layouts_.size(); ++rank) {
    const std::vector<Entry>& entries = layouts_[rank]->entries();
    for (uint32_t entry = 0; entry < entries.size(); ++entry) {
      if (entries[entry].replica == 0) by_name_[entries[entry].name].push_back({rank, entry});
    }
  }
}

Result<std::vector<Run>> SourceIndex::RunsFor(const Entry& wanted, uint64_t begin,
                                              uint64_t end) const {
  std::vector<Run> runs;
  const auto found = by_name_.find(wanted.name);
  if (found == by_name_.end()) {
    return MakeError(Code::kFailedPrecondition, "NO_SUCH_PARAMETER", "%.120s: nothing of that name",
                     wanted.name.c_str());
  }
  const std::vector<Run> all = RunsOfWhole(wanted, begin, end);
  for (const Source& source : found->second) {
    const Entry& entry = layouts_[source.rank]->entries()[source.entry];
    if (entry.global_shape != wanted.global_shape) {
      return MakeError(Code::kFailedPrecondition, "OTHER_SHAPE",
                       "%.80s: saved by rank %u with another global shape", wanted.name.c_str(),
                       source.rank);
    }
    const Slabs source_slabs(entry);
    for (const Run& whole : all) {
      Intersect(entry, source_slabs, {source.rank, source.entry, 0, whole.wanted, 0}, whole.source,
                whole.source + whole.numel, runs);
    }
  }
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return a.wanted < b.wanted; });
  uint64_t next = begin;
  for (const Run& run : runs) {
    if (run.wanted > next) {
      return Refuse("GAP", wanted, "of its local tensor were saved by no rank", next, run.wanted);
    }
    if (run.wanted < next) {
      return Refuse("DOUBLE", wanted, "of its local tensor were saved twice", run.wanted,
                    std::min(next, run.wanted + run.numel));
    }
    next = run.wanted + run.numel;
  }
  if (next != end) {
    return Refuse("GAP", wanted, "of its local tensor were saved by no rank", next, end);
  }
  return runs;
}

}  // namespace parkade::store
