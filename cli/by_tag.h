// Sums of a process's allocations by tag, class and place: what of each tag is out, and where.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "proto/control.pb.h"

namespace parkade::cli {

struct TagPlace {
  std::string tag, allocation_class, place;
  bool operator<(const TagPlace& other) const {
    return std::tie(tag, allocation_class, place) <
           std::tie(other.tag, other.allocation_class, other.place);
  }
};

struct TagSum {
  uint64_t count = 0, bytes = 0;
};

std::map<TagPlace, TagSum> SumByTag(const v1::GetProcessResponse& response);

}  // namespace parkade::cli
