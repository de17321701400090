// cuGraph*: captured graphs, instantiated and launched. Nodes run one after the other, in the order
// in which they were captured.
#include "tests/sim/graph.h"

#include <algorithm>

#include "tests/sim/driver.h"

namespace parkade::sim {

Registry<Graph, CUgraph>& AllGraphs() {
  static auto* const graphs = new Registry<Graph, CUgraph>;
  return *graphs;
}

Registry<GraphExec, CUgraphExec>& AllGraphExecs() {
  static auto* const execs = new Registry<GraphExec, CUgraphExec>;
  return *execs;
}

}  // namespace parkade::sim

using namespace parkade::sim;

namespace {

CUresult Instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto graph = AllGraphs().Find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto exec = std::make_shared<GraphExec>();
  exec->nodes = graph->nodes;
  exec->flags = flags;
  *out = AllGraphExecs().Add(std::move(exec));
  return CUDA_SUCCESS;
}

// A node's handle is its address: nodes of a captured graph do not move.
CUgraphNode HandleOf(GraphNode& node) { return reinterpret_cast<CUgraphNode>(&node); }

CUresult PutNodes(const std::vector<CUgraphNode>& nodes, CUgraphNode* out, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out != nullptr) {
    const size_t room = std::min(*count, nodes.size());
    std::copy_n(nodes.begin(), room, out);
    std::fill(out + room, out + *count, nullptr);
    *count = room;
  } else {
    *count = nodes.size();
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  return Call<"cuGraphCreate">([&] {
    if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *graph = AllGraphs().Add(std::make_shared<Graph>());
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return Call<"cuGraphDestroy">([&] {
    return AllGraphs().Remove(graph) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                               size_t log_bytes) {
  return CallIn<"cuGraphInstantiate_v2">([&](Context&) {
    if (error_node != nullptr) *error_node = nullptr;
    if (log != nullptr && log_bytes != 0) *log = '\0';
    return Instantiate(exec, graph, 0);
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return CallIn<"cuGraphInstantiateWithFlags">(
      [&](Context&) { return Instantiate(exec, graph, flags); });
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return CallIn<"cuGraphInstantiateWithParams">([&](Context&) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = Instantiate(exec, graph, params->flags);
    params->hErrNode_out = nullptr;
    params->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return Call<"cuGraphExecDestroy">([&] {
    return AllGraphExecs().Remove(exec) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  return Call<"cuGraphExecGetFlags">([&] {
    const auto exec = AllGraphExecs().Find(handle);
    if (exec == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return CallIn<"cuGraphUpload">([&](Context& context) {
    if (AllGraphExecs().Find(exec) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return Enqueue(context, stream, CU_GRAPH_NODE_TYPE_EMPTY, [] { return CUDA_SUCCESS; });
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream) {
  return CallIn<"cuGraphLaunch">([&](Context& context) {
    const auto exec = AllGraphExecs().Find(handle);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return Enqueue(context, stream, CU_GRAPH_NODE_TYPE_GRAPH, [exec] {
      for (const GraphNode& node : exec->nodes)
        if (const CUresult result = node.task(); result != CUDA_SUCCESS) return result;
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return Call<"cuGraphGetNodes">([&] {
    const auto graph = AllGraphs().Find(handle);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUgraphNode> all;
    for (GraphNode& node : graph->nodes) all.push_back(HandleOf(node));
    return PutNodes(all, nodes, count);
  });
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return Call<"cuGraphGetRootNodes">([&] {
    const auto graph = AllGraphs().Find(handle);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUgraphNode> roots;
    for (GraphNode& node : graph->nodes)
      if (node.after.empty()) roots.push_back(HandleOf(node));
    return PutNodes(roots, nodes, count);
  });
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  return Call<"cuGraphNodeGetType">([&] {
    if (type == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (const auto& graph : AllGraphs().All()) {
      for (GraphNode& node : graph->nodes) {
        if (HandleOf(node) != handle) continue;
        *type = node.type;
        return CUDA_SUCCESS;
      }
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}
