// Handlers of the calls that make graphs hold memory: it stays the driver's own, and is counted.
#include "shim/hooks/counts.h"
#include "shim/hooks/gate_pass.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/hooked.h"

namespace parkade::shim {
namespace {

// Not asked while anything captures: asking pools would end that (580).
void Measure(Parts& parts, Foreign::Measure when) {
  if (Gate::Capturing()) return;
  InShim guard;
  parts.foreign.MeasureGraphs(when);
}

void NoteNode(const void* caller, const CUmemLocation& location) {
  Parts* parts = PartsFor(caller);
  if (parts == nullptr || location.type != CU_MEM_LOCATION_TYPE_DEVICE) return;
  parts->foreign.AddGraphMemory(location.id);
}

}  // namespace

CUresult OnGraphAddMemAllocNode(Call<decltype(cuGraphAddMemAllocNode)> call, CUgraphNode* out,
                                CUgraph graph, const CUgraphNode* dependencies,
                                size_t dependency_count, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, graph, dependencies, dependency_count, params);
  if (r != CUDA_SUCCESS) return r;
  CountTrackedCall(Entry::cuGraphAddMemAllocNode);
  NoteNode(call.caller, params->poolProps.location);
  return r;
}

CUresult OnGraphAddNode(Call<decltype(cuGraphAddNode)> call, CUgraphNode* out, CUgraph graph,
                        const CUgraphNode* dependencies, size_t dependency_count,
                        CUgraphNodeParams* params) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, graph, dependencies, dependency_count, params);
  if (r == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    NoteNode(call.caller, params->alloc.poolProps.location);
  }
  return r;
}

CUresult OnGraphAddNodeV2(Call<decltype(cuGraphAddNode_v2)> call, CUgraphNode* out, CUgraph graph,
                          const CUgraphNode* dependencies, const CUgraphEdgeData* edges,
                          size_t dependency_count, CUgraphNodeParams* params) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, graph, dependencies, edges, dependency_count, params);
  if (r == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    NoteNode(call.caller, params->alloc.poolProps.location);
  }
  return r;
}

// The driver takes the memory of a graph's nodes when it is first launched (580).
CUresult OnGraphLaunch(Call<decltype(cuGraphLaunch)> call, CUgraphExec exec, CUstream stream) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(exec, stream);
  Parts* parts = PartsFor(call.caller);
  if (r == CUDA_SUCCESS && parts != nullptr && parts->foreign.has_graph_memory()) {
    Measure(*parts, Foreign::Measure::kSometimes);
  }
  return r;
}

CUresult OnGraphMemTrim(Call<decltype(cuDeviceGraphMemTrim)> call, CUdevice device) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(device);
  Parts* parts = PartsFor(call.caller);
  if (r == CUDA_SUCCESS && parts != nullptr) Measure(*parts, Foreign::Measure::kNow);
  return r;
}

}  // namespace parkade::shim
