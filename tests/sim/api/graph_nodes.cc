// Nodes that a program adds to a graph by hand: child graphs and memory. They run after all nodes
// that were there before.
#include <algorithm>

#include "tests/sim/driver.h"
#include "tests/sim/graph.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

// Memory of one allocation node: reserved from when the node is made, unused once the graph and all
// that was instantiated from it are gone, the GPU's again after a trim.
struct GraphBlock {
  std::weak_ptr<const int> user;
  int gpu;
  Address base;
  Bytes bytes;
};
Mutex blocks_mutex;
std::vector<GraphBlock> blocks GUARDED_BY(blocks_mutex);
Bytes most_reserved[kMaxGpus] GUARDED_BY(blocks_mutex);

Bytes Reserved(int gpu, bool used_only) REQUIRES(blocks_mutex) {
  Bytes bytes = 0;
  for (const GraphBlock& block : blocks) {
    if (block.gpu == gpu && !(used_only && block.user.expired())) bytes += block.bytes;
  }
  return bytes;
}

CUgraphNode AddNode(Graph& graph, CUgraphNodeType type, Task task) {
  GraphNode node{type, std::move(task), {}};
  for (size_t i = 0; i < graph.nodes.size(); ++i) node.after.push_back(i);
  graph.nodes.push_back(std::move(node));
  return reinterpret_cast<CUgraphNode>(&graph.nodes.back());
}

bool Known(CUdevice gpu) { return gpu >= 0 && gpu < Sim().settings.gpus; }

}  // namespace

namespace parkade::sim {
bool IsGraphMemory(uint64_t base) {
  MutexLock lock(blocks_mutex);
  return std::any_of(blocks.begin(), blocks.end(),
                     [base](const GraphBlock& block) { return block.base == base; });
}
}  // namespace parkade::sim

CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph handle, const CUgraphNode*, size_t,
                                  CUgraph child_handle) {
  return Call<"cuGraphAddChildGraphNode">([&] {
    const auto graph = AllGraphs().Find(handle);
    const auto child = AllGraphs().Find(child_handle);
    if (out == nullptr || graph == nullptr || child == nullptr || graph == child)
      return CUDA_ERROR_INVALID_VALUE;
    // As it is now: later changes of the child's graph do not count.
    *out = AddNode(*graph, CU_GRAPH_NODE_TYPE_GRAPH, [nodes = child->nodes] {
      for (const GraphNode& node : nodes)
        if (const CUresult result = node.task(); result != CUDA_SUCCESS) return result;
      return CUDA_SUCCESS;
    });
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph handle, const CUgraphNode*, size_t,
                                CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return CallIn<"cuGraphAddMemAllocNode">([&](Context& context) {
    const auto graph = AllGraphs().Find(handle);
    if (out == nullptr || graph == nullptr || params == nullptr || params->bytesize == 0 ||
        !Known(params->poolProps.location.id))
      return CUDA_ERROR_INVALID_VALUE;
    Range range;
    range.bytes = params->bytesize;
    range.gpu = params->poolProps.location.id;
    range.context = context.handle;
    const int gpu = range.gpu;
    const Bytes bytes = RoundUp(params->bytesize, kGranularity);
    if (auto r =
            Physical::Create(Sim().account, gpu, bytes, Sim().settings.gpu_bytes, &range.memory);
        r != CUDA_SUCCESS)
      return r;
    Address base = 0;
    if (auto r = Sim().addresses.Place(std::move(range), &base); r != CUDA_SUCCESS) return r;
    const auto user = std::make_shared<const int>(0);
    {
      MutexLock lock(blocks_mutex);
      blocks.push_back({user, gpu, base, bytes});
      most_reserved[gpu] = std::max(most_reserved[gpu], Reserved(gpu, false));
    }
    params->dptr = base;
    *out = AddNode(*graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, [user] { return CUDA_SUCCESS; });
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice gpu, CUgraphMem_attribute attribute, void* value) {
  return Call<"cuDeviceGetGraphMemAttribute">([&] {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    MutexLock lock(blocks_mutex);
    uint64_t number = 0;
    switch (int(attribute)) {
      case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        number = Reserved(gpu, true);
        break;
      case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        number = Reserved(gpu, false);
        break;
      case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        number = most_reserved[gpu];
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    *static_cast<cuuint64_t*>(value) = number;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGraphMemTrim(CUdevice gpu) {
  return Call<"cuDeviceGraphMemTrim">([&] {
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    std::vector<Address> unused;
    {
      MutexLock lock(blocks_mutex);
      std::erase_if(blocks, [&](const GraphBlock& block) {
        if (block.gpu != gpu || !block.user.expired()) return false;
        unused.push_back(block.base);
        return true;
      });
    }
    for (const Address base : unused) Sim().addresses.Remove(base, RangeKind::kNative);
    return CUDA_SUCCESS;
  });
}
