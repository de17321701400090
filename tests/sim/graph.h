// Graphs by handle, and their executable form.
#pragma once

#include <deque>
#include <memory>

#include "tests/sim/capture.h"
#include "tests/sim/registry.h"

namespace parkade::sim {

// A graph as it was when it was instantiated.
struct GraphExec {
  std::deque<GraphNode> nodes;
  unsigned long long flags = 0;
};

// Whether an allocation node made what begins at `base`: freeing it leaves it to the graphs'
// reserve.
bool IsGraphMemory(uint64_t base);

Registry<Graph, CUgraph>& AllGraphs();
Registry<GraphExec, CUgraphExec>& AllGraphExecs();

}  // namespace parkade::sim
