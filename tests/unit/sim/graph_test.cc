// Captured graphs: what they hold, and what their replay does.
#include "tests/unit/sim/gpu.h"
#include "tests/unit/sim/streams.h"

using namespace parkade;
using namespace parkade::sim;

TEST_CASE("a captured graph runs when it is launched, over streams that were joined") {
  const Gpu gpu;
  const OwnStream first, second;
  const OwnEvent fork, join;
  const Buffer buffer(8);
  REQUIRE(cuMemsetD32(buffer.at(), 0, 2) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(fork, first) == CUDA_SUCCESS);
  REQUIRE(cuStreamWaitEvent(second, fork, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32Async(buffer.at(), 5, 1, first) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoDAsync(buffer.at() + 4, buffer.at(), 4, second) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(join, second) == CUDA_SUCCESS);

  REQUIRE(cuStreamWaitEvent(first, join, 0) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(first, &graph) == CUDA_SUCCESS);
  REQUIRE(ReadWords(buffer.at(), 2) == std::vector<uint32_t>{0, 0});
  size_t nodes = 0;
  REQUIRE(cuGraphGetNodes(graph, nullptr, &nodes) == CUDA_SUCCESS);
  REQUIRE(nodes == 2);
  CUgraphExec exec = nullptr;
  REQUIRE(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphDestroy(graph) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(exec, first) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(first) == CUDA_SUCCESS);
  REQUIRE(ReadWords(buffer.at(), 2) == std::vector<uint32_t>{5, 5});
  REQUIRE(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}

TEST_CASE("a stream that never came back makes the capture unjoined") {
  const Gpu gpu;
  const OwnStream first, second;
  const OwnEvent fork;
  const Buffer buffer(8);
  REQUIRE(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(fork, first) == CUDA_SUCCESS);
  REQUIRE(cuStreamWaitEvent(second, fork, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8Async(buffer.at(), 1, 8, second) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(second, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  REQUIRE(cuStreamEndCapture(first, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

TEST_CASE("a replayed graph works on what is mapped at its addresses now") {
  const Gpu gpu;
  const auto prop = gpu.Exportable();
  const auto access = gpu.ReadWrite();
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle handle = 0;
  auto map = [&] {
    REQUIRE(cuMemCreate(&handle, 2_MiB, &prop, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemMap(at, 2_MiB, 0, handle, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemSetAccess(at, 2_MiB, &access, 1) == CUDA_SUCCESS);
  };
  auto unmap = [&] {
    REQUIRE(cuMemUnmap(at, 2_MiB) == CUDA_SUCCESS);
    REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  };
  REQUIRE(cuMemAddressReserve(&at, 2_MiB, 0, 0, 0) == CUDA_SUCCESS);
  map();
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  REQUIRE(cuModuleLoadData(&module, "any") == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&add, module, "add_words") == CUDA_SUCCESS);
  const OwnStream stream;
  uint64_t n = 2_MiB / 4;
  uint32_t three = 3;
  void* parameters[] = {&at, &n, &three};
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  REQUIRE(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  REQUIRE(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
  unmap();
  map();
  REQUIRE(cuMemsetD32(at, 100, n) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  REQUIRE(ReadWords(at + 2_MiB - 4, 1)[0] == 103);
  unmap();
  REQUIRE(cuMemAddressFree(at, 2_MiB) == CUDA_SUCCESS);
}
