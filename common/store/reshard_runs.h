// Which saved elements make a wanted piece of a parameter: by name and place in the global tensor,
// whatever the cut of either side. Geometry alone; no bytes.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/result.h"
#include "common/store/layout.h"

namespace parkade::store {

// Elements that follow each other on both sides.
struct Run {
  uint32_t rank = 0;    // index of the source layout
  uint32_t entry = 0;   // in that layout
  uint64_t source = 0;  // index in the source's local tensor
  uint64_t wanted = 0;  // index in the wanted local tensor
  uint64_t numel = 0;
};

// The runs of `wanted`'s local elements [begin, end) in its whole global tensor: sources are global
// indexes, rank and entry 0.
std::vector<Run> RunsOfWhole(const Entry& wanted, uint64_t begin, uint64_t end);

class SourceIndex {
 public:
  // `sources` by rank; they outlive the index. Replicas (Entry::replica) are left aside.
  explicit SourceIndex(std::vector<const Layout*> sources);

  // The runs that make elements [begin, end) of `wanted`'s local tensor, in that order, each
  // element once. FAILED_PRECONDITION NO_SUCH_PARAMETER, OTHER_SHAPE, GAP or DOUBLE, with the
  // parameter and the range.
  Result<std::vector<Run>> RunsFor(const Entry& wanted, uint64_t begin, uint64_t end) const;

 private:
  struct Source {
    uint32_t rank;
    uint32_t entry;
  };
  const std::vector<const Layout*> layouts_;
  std::unordered_map<std::string, std::vector<Source>> by_name_;
};

}  // namespace parkade::store
