// Graph nodes on memory of cuMemAlloc, built by hand and captured.
#include <cstring>

#include "tests/apps/edge_calls/case.h"

namespace {

class Graph {
 public:
  Graph() { Must(cuGraphCreate(&graph_, 0), "cuGraphCreate"); }
  ~Graph() { Must(cuGraphDestroy(graph_), "cuGraphDestroy"); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  operator CUgraph() const { return graph_; }

 private:
  CUgraph graph_ = nullptr;
};

CUresult AddFill(CUgraph graph, CUdeviceptr at, size_t bytes) {
  CUDA_MEMSET_NODE_PARAMS fill;
  memset(&fill, 0, sizeof fill);
  fill.dst = at;
  fill.elementSize = 1;
  fill.width = bytes;
  fill.height = 1;
  CUgraphNode node;
  return cuGraphAddMemsetNode(&node, graph, nullptr, 0, &fill, PrimaryContext());
}

CUresult AddCopy(CUgraph graph, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D copy;
  memset(&copy, 0, sizeof copy);
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = bytes;
  copy.srcHeight = copy.dstHeight = copy.Height = copy.Depth = 1;
  CUgraphNode node;
  return cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, PrimaryContext());
}

const Case kCases[] = {
    {"graph_fill_node",
     [](Answer& a) {
       const Memory m(kMiddle);
       const Graph graph;
       a.Code("whole", AddFill(graph, m, kMiddle));
       a.Code("one_more", AddFill(graph, m, kMiddle + 1)).Code("end", AddFill(graph, m.end(), 1));
     }},
    {"graph_fill_node_nowhere",
     [](Answer& a) {
       const Graph graph;
       a.Code("null", AddFill(graph, 0, 16)).Code("freed", AddFill(graph, Freed(kMiddle), 16));
     }},
    {"graph_copy_node",
     [](Answer& a) {
       const Memory m(kMiddle), n(kMiddle);
       const Graph graph;
       a.Code("whole", AddCopy(graph, m, n, kMiddle));
       a.Code("one_more", AddCopy(graph, m, n, kMiddle + 1));
       a.Code("source_at_end", AddCopy(graph, m, n.end(), 1));
     }},
    {"graph_copy_node_nowhere",
     [](Answer& a) {
       const Memory m(kMiddle);
       const Graph graph;
       a.Code("null", AddCopy(graph, 0, m, 16));
       a.Code("freed", AddCopy(graph, m, Freed(kMiddle), 16));
     }},
    {"graph_free_node_of_plain_memory",
     [](Answer& a) {
       const Memory m(kMiddle);
       const Graph graph;
       CUgraphNode node;
       a.Code(cuGraphAddMemFreeNode(&node, graph, nullptr, 0, m));
     }},
    {"graph_copied_by_replay",
     [](Answer& a) {
       const Memory m(kMiddle), n(kMiddle);
       const Stream stream;
       Must(cuMemsetD8(n, 0x41, kMiddle), "cuMemsetD8");
       Must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
       a.Code(cuMemcpyDtoDAsync(m, n, kMiddle, stream));
       CUgraph graph = nullptr;
       CUgraphExec exec = nullptr;
       Must(cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
       Must(cuGraphInstantiate(&exec, graph, 0), "cuGraphInstantiate");
       a.Code("launch", cuGraphLaunch(exec, stream)).Code("wait", cuStreamSynchronize(stream));
       char last = 0;
       a.Code(cuMemcpyDtoH(&last, m.end() - 1, 1)).Note("last=%c", last);
       Must(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
       Must(cuGraphDestroy(graph), "cuGraphDestroy");
     }},
    {"graph_replayed_after_its_memory_was_freed",
     [](Answer& a) {
       // The copy's target is gone: what is instantiated says so no more than it does natively.
       CUdeviceptr p = 0;
       const Stream stream;
       Must(cuMemAlloc(&p, kLarge), "cuMemAlloc");
       Must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
       Must(cuMemsetD8Async(p, 1, 4096, stream), "cuMemsetD8Async");
       CUgraph graph = nullptr;
       CUgraphExec exec = nullptr;
       Must(cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
       Must(cuMemFree(p), "cuMemFree");
       a.Code("instantiate", cuGraphInstantiate(&exec, graph, 0));
       if (exec != nullptr) Must(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
       Must(cuGraphDestroy(graph), "cuGraphDestroy");
     }},
};

}  // namespace

std::span<const Case> GraphCases() { return kCases; }
