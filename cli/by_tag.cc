// Adds up.
#include "cli/by_tag.h"

namespace parkade::cli {

std::map<TagPlace, TagSum> SumByTag(const v1::GetProcessResponse& response) {
  std::map<TagPlace, TagSum> sums;
  for (const auto& a : response.allocations()) {
    TagSum& sum = sums[{a.tag(), a.allocation_class(), a.place()}];
    ++sum.count;
    sum.bytes += a.bytes();
  }
  return sums;
}

}  // namespace parkade::cli
