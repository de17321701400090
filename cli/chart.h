// Charts: curves of one recording that are stacked over one another, thinned so that a day of them
// is still small.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/recording.h"

namespace parkade::cli {

struct Layer {
  std::string process;  // "4711 rl/actor/0"; empty: of no process
  std::string tag;
  std::vector<uint64_t> bytes;  // at each time of the chart
};

// A stack over time; values hold from their time until the next.
struct Chart {
  enum class Kind { kGpu, kHost, kDisk } kind;
  std::string title;
  uint64_t capacity = 0;  // 0: unknown
  std::vector<int64_t> ms;
  std::vector<Layer> layers;  // lowest first

  uint64_t TotalAt(size_t i) const;
};

constexpr char kOther[] = "not managed";  // tag of what a GPU has in use beside managed processes

// One for each GPU, then host memory, then disk; each with `most_times` moments at most. Of more,
// those stay at which the stack is highest, and the last, of each stretch of time.
std::vector<Chart> ChartsOf(const Recording& recording, size_t most_times);

}  // namespace parkade::cli
