// The heap on the simulated GPU: what a fake without streams, captures and an account cannot show.
#include <dlfcn.h>

#include <atomic>
#include <thread>

#include "shim/heap/heap.h"
#include "tests/unit/sim/gpu.h"
#include "tests/unit/sim/streams.h"

namespace parkade::shim {
namespace {

struct SimHeap {
  SimHeap() {
    auto made = LedgerWriter::Create();
    REQUIRE(made.ok());
    ledger = std::move(*made);
    heap = std::make_unique<Heap>(driver, *ledger, contexts);
  }
  CUdeviceptr Allocate(Bytes bytes) {
    CUdeviceptr ptr = 0;
    REQUIRE(heap->Allocate(&ptr, bytes, "default") == CUDA_SUCCESS);
    return ptr;
  }
  CUresult Free(CUdeviceptr ptr) {
    CUresult result = CUDA_ERROR_UNKNOWN;
    REQUIRE(heap->Free(ptr, &result));
    return result;
  }

  const sim::Gpu gpu{0};
  const Driver driver = LoadDriver([](const char* name) { return dlsym(RTLD_DEFAULT, name); });
  std::unique_ptr<LedgerWriter> ledger;
  Contexts contexts;
  std::unique_ptr<Heap> heap;
};

TEST_CASE("memory of the heap can be written and read by the driver, and all of it comes back") {
  SimHeap s;
  const Bytes free_before = s.gpu.Free();
  std::vector<CUdeviceptr> made;
  for (const Bytes bytes : {4_KiB, 1_MiB, 6_MiB, 20_MiB, 40_MiB}) {
    const CUdeviceptr ptr = s.Allocate(bytes);
    REQUIRE(cuMemsetD32(ptr, uint32_t(bytes), bytes / 4) == CUDA_SUCCESS);
    made.push_back(ptr);
  }
  CHECK(sim::ReadWords(made[3] + 20_MiB - 8, 2) == std::vector<uint32_t>(2, uint32_t(20_MiB)));
  CHECK(s.gpu.Free() <= free_before - 2_MiB - 64_MiB - 40_MiB);
  for (CUdeviceptr ptr : made) CHECK(s.Free(ptr) == CUDA_SUCCESS);
  s.heap->Trim();
  s.heap->implicit_wait().Clear();
  CHECK(s.gpu.Free() == free_before);
}

TEST_CASE("a free returns after the work on every stream, as cudaFree does") {
  SimHeap s;
  for (const Bytes bytes : {4_KiB, 20_MiB, 40_MiB}) {
    const CUdeviceptr ptr = s.Allocate(bytes);
    const sim::OwnStream stream(CU_STREAM_NON_BLOCKING);
    std::atomic<bool> done{false};
    sim::Spin(stream, 50);
    REQUIRE(cuMemsetD8Async(ptr, 1, bytes, stream) == CUDA_SUCCESS);
    auto mark = [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; };
    REQUIRE(cuLaunchHostFunc(stream, mark, &done) == CUDA_SUCCESS);
    CHECK(s.Free(ptr) == CUDA_SUCCESS);
    CHECK(done);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);  // no fault: the memory was still there
  }
}

TEST_CASE("allocations and frees leave a capture on another thread alone") {
  SimHeap s;
  s.Free(s.Allocate(4_KiB));
  for (const CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CU_STREAM_CAPTURE_MODE_RELAXED}) {
    const sim::OwnStream stream;
    const CUdeviceptr target = s.Allocate(4_KiB);
    REQUIRE(cuStreamBeginCapture(stream, mode) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD8Async(target, 1, 4096, stream) == CUDA_SUCCESS);
    std::atomic<int> failed{0};
    std::thread other([&] {
      cuCtxSetCurrent(s.gpu.context());
      for (const Bytes bytes : {4_KiB, 20_MiB, 40_MiB}) {
        CUdeviceptr ptr = 0;
        CUresult result = CUDA_ERROR_UNKNOWN;
        failed += s.heap->Allocate(&ptr, bytes, "new") != CUDA_SUCCESS;
        failed += !s.heap->Free(ptr, &result) || result != CUDA_SUCCESS;
      }
      s.heap->Trim();
    });
    other.join();
    CHECK(failed == 0);
    CUgraph graph = nullptr;
    CHECK(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    if (graph != nullptr) cuGraphDestroy(graph);
    CHECK(s.Free(target) == CUDA_SUCCESS);
  }
}

TEST_CASE("a heap on a full GPU says out of memory and works again when there is room") {
  SimHeap s;
  std::vector<CUdeviceptr> made;
  CUdeviceptr ptr = 0;
  while (s.heap->Allocate(&ptr, 20_MiB, "default") == CUDA_SUCCESS) made.push_back(ptr);
  CHECK(made.size() >= 10);  // 256 MiB less the context
  CHECK(s.heap->Allocate(&ptr, 40_MiB, "default") == CUDA_ERROR_OUT_OF_MEMORY);
  for (CUdeviceptr p : made) CHECK(s.Free(p) == CUDA_SUCCESS);
  CHECK(s.Free(s.Allocate(200_MiB)) == CUDA_SUCCESS);
}

}  // namespace
}  // namespace parkade::shim
