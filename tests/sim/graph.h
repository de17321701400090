// Graphs by handle, and their executable form.
#pragma once

#include <memory>
#include <vector>

#include "tests/sim/capture.h"
#include "tests/sim/registry.h"

namespace parkade::sim {

// A graph as it was when it was instantiated.
struct GraphExec {
  std::vector<GraphNode> nodes;
  unsigned long long flags = 0;
};

Registry<Graph, CUgraph>& AllGraphs();
Registry<GraphExec, CUgraphExec>& AllGraphExecs();

}  // namespace parkade::sim
