// The handlers over heap and gate on the simulated GPU, without agent and daemon.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/shim/hooks/context.h"
#include "tests/unit/shim/hooks/levers.h"

namespace {

constexpr CUcontext kNone = nullptr;

template <typename T>
T Attribute(CUpointer_attribute attribute, CUdeviceptr ptr) {
  T value{};
  CHECK(cuPointerGetAttribute(&value, attribute, ptr) == CUDA_SUCCESS);
  return value;
}

}  // namespace

TEST_CASE("nothing exists before the first context, and each allocation is one by any door") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  CHECK_FALSE(parkade_test_alive());
  Context context;
  CHECK(parkade_test_alive());

  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  void* resolved = nullptr;
  CUdriverProcAddressQueryResult status;
  REQUIRE(cuGetProcAddress_v2("cuMemAlloc", &resolved, 13000, 0, &status) == CUDA_SUCCESS);
  using Alloc = decltype(&cuMemAlloc_v2);
  const Alloc doors[] = {&cuMemAlloc_v2, reinterpret_cast<Alloc>(dlsym(driver, "cuMemAlloc_v2")),
                         reinterpret_cast<Alloc>(resolved)};
  uint64_t expected = parkade_test_allocations();
  std::vector<CUdeviceptr> made;
  for (Alloc alloc : doors) {
    made.push_back(0);
    REQUIRE(alloc(&made.back(), 1000) == CUDA_SUCCESS);
    CHECK(parkade_test_allocations() == ++expected);
  }
  for (CUdeviceptr p : made) CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
  CHECK(parkade_test_allocations() == expected - 3);
  dlclose(driver);
}

TEST_CASE("an allocation looks like a native one from any address inside") {
  Context context;
  for (size_t bytes : {size_t(1), size_t(6912), (size_t(2) << 20) + 1, size_t(600) << 20}) {
    CUdeviceptr base = 0;
    REQUIRE(cuMemAlloc_v2(&base, bytes) == CUDA_SUCCESS);
    for (CUdeviceptr p : {base, base + bytes / 2, base + bytes - 1}) {
      INFO(bytes << " at " << p - base);
      CUdeviceptr start = 0;
      size_t size = 0;
      CHECK(cuMemGetAddressRange_v2(&start, &size, p) == CUDA_SUCCESS);
      CHECK(start == base);
      CHECK(size == bytes);
      CHECK(cuMemGetAddressRange_v2(nullptr, &size, p) == CUDA_SUCCESS);
      CHECK(Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p) == base);
      CHECK(Attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, p) == bytes);
      CHECK(Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p) == p);
      CHECK(Attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) == CU_MEMORYTYPE_DEVICE);
      CHECK(Attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p) == 0);
      CHECK(Attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, p) == context.get());
      CHECK(Attribute<bool>(CU_POINTER_ATTRIBUTE_MAPPED, p));
    }
    CHECK(cuMemFree_v2(base) == CUDA_SUCCESS);
  }
}

TEST_CASE("many attributes at once agree with each alone") {
  Context context;
  CUdeviceptr p = 0;
  REQUIRE(cuMemAlloc_v2(&p, 5000) == CUDA_SUCCESS);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                      CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                      CU_POINTER_ATTRIBUTE_BUFFER_ID};
  CUdeviceptr start = 0;
  size_t size = 0;
  unsigned long long id = 0;
  void* to[] = {&start, &size, &id};
  REQUIRE(cuPointerGetAttributes(3, attributes, to, p + 10) == CUDA_SUCCESS);
  CHECK(start == p);
  CHECK(size == 5000);
  CHECK(id == Attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
}

TEST_CASE("edge calls have the driver's own answers") {
  Context context;
  CUdeviceptr p = 1;
  CHECK(cuMemAlloc_v2(&p, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAlloc_v2(nullptr, 10) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAlloc_v2(&p, size_t(32) << 40) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(p == 0);  // written, whatever comes
  CHECK(cuMemFree_v2(0) == CUDA_SUCCESS);
  REQUIRE(cuMemAlloc_v2(&p, 4096) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(p + 256) == CUDA_ERROR_INVALID_VALUE);
  CUmemGenericAllocationHandle handle = 0;
  CHECK(cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(p)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(p) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("beside an allocation there is nothing, though its slab goes on") {
  Context context;
  CUdeviceptr kept = 0, freed = 0, start = 7;
  REQUIRE(cuMemAlloc_v2(&kept, 5000) == CUDA_SUCCESS);
  REQUIRE(cuMemAlloc_v2(&freed, 5000) == CUDA_SUCCESS);
  REQUIRE(cuMemFree_v2(freed) == CUDA_SUCCESS);
  for (CUdeviceptr p : {kept + 5000, freed, freed + 100}) {
    uint64_t value[4] = {7, 7, 7, 7};
    CHECK(cuPointerGetAttribute(value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) ==
          CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    void* to = value;
    CHECK(cuPointerGetAttributes(1, &attribute, &to, p) == CUDA_SUCCESS);
    CHECK(unsigned(value[0]) == 0);
    CHECK(cuMemGetAddressRange_v2(&start, nullptr, p) == CUDA_ERROR_NOT_FOUND);
    CHECK(start == 0);
    CUmemGenericAllocationHandle handle;
    CHECK(cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(p)) ==
          CUDA_ERROR_INVALID_VALUE);
    int fd = -1;
    CHECK(cuMemGetHandleForAddressRange(&fd, p / 4096 * 4096 + 4096, 4096,
                                        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                        0) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(cuMemFree_v2(kept) == CUDA_SUCCESS);
}

TEST_CASE("a thread without a context is refused as for native memory") {
  Context context;
  CUdeviceptr p = 0, other = 0;
  REQUIRE(cuMemAlloc_v2(&p, 5000) == CUDA_SUCCESS);
  std::thread([&] {
    size_t size = 0;
    CUipcMemHandle token;
    CHECK(cuMemAlloc_v2(&other, 10) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuMemFreeAsync(p, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuMemGetAddressRange_v2(nullptr, &size, p) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuIpcGetMemHandle(&token, p) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(size == 0);
    // Attributes are answered and memory is freed without one.
    CHECK(Attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, p) == 5000);
    CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
  }).join();
  CHECK(cuMemFree_v2(p) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a context that was destroyed elsewhere is not made current again") {
  Context context;
  CUcontext other = nullptr;
  CUdeviceptr p = 0;
  REQUIRE(cuCtxCreate_v2(&other, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemAlloc_v2(&p, 5000) == CUDA_SUCCESS);
  std::thread([&] { CHECK(cuCtxDestroy_v2(other) == CUDA_SUCCESS); }).join();
  // The simulated driver ends the process when it is; the card's corrupts its memory.
  CUdeviceptr late = 1;
  CHECK(cuMemAlloc_v2(&late, 5000) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(late == 0);
  CHECK(cuMemFree_v2(p) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuCtxSetCurrent(context.get()) == CUDA_SUCCESS);
}

TEST_CASE("allocating and freeing end a capture where they would natively, and only there") {
  Context context;
  CUdeviceptr p = 0;
  CUstream stream;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  for (auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    const bool refused = mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUgraph graph = nullptr;
    REQUIRE(cuStreamBeginCapture_v2(stream, mode) == CUDA_SUCCESS);
    CHECK((cuMemAlloc_v2(&p, 5000) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) == refused);
    CHECK((cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS) == !refused);
    if (graph != nullptr) cuGraphDestroy(graph);
    if (refused) REQUIRE(cuMemAlloc_v2(&p, 5000) == CUDA_SUCCESS);
    graph = nullptr;
    REQUIRE(cuStreamBeginCapture_v2(stream, mode) == CUDA_SUCCESS);
    CHECK((cuMemFree_v2(p) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) == refused);
    CHECK((cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS) == !refused);
    if (graph != nullptr) cuGraphDestroy(graph);
    if (refused) CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
  }
  CHECK(cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
}

TEST_CASE("synchronous memory operations are had for an allocation, and its context obeys") {
  Context context;
  CUdeviceptr p = 0, other = 0;
  unsigned on = 1, flags = 0;
  REQUIRE(cuMemAlloc_v2(&p, 5000) == CUDA_SUCCESS);
  REQUIRE(cuMemAlloc_v2(&other, 5000) == CUDA_SUCCESS);
  CHECK(Attribute<unsigned>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p) == 0);
  CHECK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p + 10) == CUDA_SUCCESS);
  CHECK(Attribute<unsigned>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p + 4999) == 1);
  CHECK(Attribute<unsigned>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, other) == 0);
  CHECK(cuCtxGetFlags(&flags) == CUDA_SUCCESS);
  CHECK((flags & CU_CTX_SYNC_MEMOPS) != 0);
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(other) == CUDA_SUCCESS);
}

TEST_CASE("a pitched allocation has rows of the device's alignment") {
  Context context;
  CUdeviceptr p = 0;
  size_t pitch = 0;
  const uint64_t before = parkade_test_allocations();
  REQUIRE(cuMemAllocPitch_v2(&p, &pitch, 1000, 3, 4) == CUDA_SUCCESS);
  CHECK(pitch >= 1000);
  CHECK(pitch % 32 == 0);
  CHECK(parkade_test_allocations() == before + 1);
  CHECK(Attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, p) == pitch * 3);
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
  CHECK(cuMemAllocPitch_v2(&p, &pitch, SIZE_MAX - 5, 2, 4) != CUDA_SUCCESS);
  CHECK(pitch == 0);
  // As native: the pitch is there where the memory is not.
  CHECK(cuMemAllocPitch_v2(&p, &pitch, 1000, size_t(1) << 40, 4) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(p == 0);
  CHECK(pitch == 1024);
}

TEST_CASE("a pause waits for the end of a capture and not for a refused one") {
  Context context;
  CUstream stream;
  CUgraph graph = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  CHECK(parkade_test_close_gate(20) == -1);
  CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS);
  CHECK(parkade_test_close_gate(20) == -1);
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  CHECK(parkade_test_close_gate(1000) == 0);
  parkade_test_open_gate();
  if (graph != nullptr) cuGraphDestroy(graph);

  // Another thread may not end it, nor may the stream go: the capture is still under way.
  REQUIRE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  std::thread([&] {
    cuCtxSetCurrent(context.get());
    cuStreamEndCapture(stream, &graph);
  }).join();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  REQUIRE(cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS);
  if (status != CU_STREAM_CAPTURE_STATUS_NONE) CHECK(parkade_test_close_gate(20) == -1);
  cuStreamEndCapture(stream, &graph);
  CHECK(parkade_test_close_gate(1000) == 0);
  parkade_test_open_gate();
  CHECK(cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
}

TEST_CASE("while the gate is closed allocating waits, and asking and freeing do not") {
  Context context;
  CUdeviceptr p = 0;
  REQUIRE(cuMemAlloc_v2(&p, 4096) == CUDA_SUCCESS);
  REQUIRE(parkade_test_close_gate(1000) == 0);
  CHECK(Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p) == p);
  CUdeviceptr late = 0;
  std::thread allocator([&] {
    cuCtxSetCurrent(context.get());
    cuMemAlloc_v2(&late, 4096);
  });
  while (parkade_test_waiting_threads() == 0) std::this_thread::yield();
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
  parkade_test_open_gate();
  allocator.join();
  CHECK(late != 0);
  CHECK(cuMemFree_v2(late) == CUDA_SUCCESS);
}

TEST_CASE("a handle for another process is had for any address of an allocation, not for others") {
  Context context;
  CUdeviceptr p = 0, opened = 0;
  CUipcMemHandle by_base, by_inside, none;
  REQUIRE(cuMemAlloc_v2(&p, 5000) == CUDA_SUCCESS);
  CHECK(cuIpcGetMemHandle(&by_base, p) == CUDA_SUCCESS);
  CHECK(cuIpcGetMemHandle(&by_inside, p + 4999) == CUDA_SUCCESS);
  CHECK(memcmp(&by_base, &by_inside, sizeof by_base) == 0);
  CHECK(cuIpcGetMemHandle(nullptr, p) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuIpcGetMemHandle(&none, p + 5000) == CUDA_ERROR_INVALID_VALUE);
  // As native: nobody opens his own, and flags and pointers are checked.
  CHECK(cuIpcOpenMemHandle_v2(&opened, by_base, 1) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuIpcOpenMemHandle_v2(nullptr, by_base, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuIpcOpenMemHandle_v2(&opened, by_base, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
}

TEST_CASE("memory behind a dma-buf is held and said to be") {
  Context context;
  CUdeviceptr p = 0;
  int fd = -1;
  REQUIRE(cuMemAlloc_v2(&p, 2 << 20) == CUDA_SUCCESS);
  CHECK_FALSE(parkade_test_ledger_says("dma-buf"));
  CHECK(parkade_test_held_bytes() == 0);
  REQUIRE(cuMemGetHandleForAddressRange(&fd, p, 2 << 20, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) ==
          CUDA_SUCCESS);
  close(fd);
  CHECK(parkade_test_ledger_says("dma-buf"));
  CHECK(parkade_test_held_bytes() == 2 << 20);
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
  CHECK(parkade_test_held_bytes() == 0);
}

TEST_CASE("a descriptor may end with the page of the GPU that its allocation ends in") {
  Context context;
  constexpr auto kType = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
  CUdeviceptr p = 0;
  REQUIRE(cuMemAlloc_v2(&p, (2 << 20) + 100) == CUDA_SUCCESS);
  const size_t bytes = ((p + (2 << 20) + 99) / (2 << 20) + 1) * (2 << 20) - p;
  int fd = -5;
  REQUIRE(cuMemGetHandleForAddressRange(&fd, p, bytes, kType, 0) == CUDA_SUCCESS);
  CHECK(fd >= 0);
  close(fd);
  CHECK(cuMemGetHandleForAddressRange(&fd, p, bytes + 4096, kType, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(fd == -1);
  fd = -5;  // what no range can be is refused before the memory is looked at
  CHECK(cuMemGetHandleForAddressRange(&fd, p, SIZE_MAX - 4095, kType, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(fd == -5);
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
}

TEST_CASE("freeing in stream order frees memory of the heap too") {
  Context context;
  CUstream stream;
  CUdeviceptr p = 0;
  const uint64_t before = parkade_test_allocations();
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuMemAlloc_v2(&p, 4096) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(p, stream) == CUDA_SUCCESS);
  CHECK(parkade_test_allocations() == before);
  CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
}

TEST_CASE("memory dies with its context and not before the last release") {
  const uint64_t before = parkade_test_allocations();
  CUcontext again = nullptr;
  {
    Context context;
    CUdeviceptr p = 0;
    REQUIRE(cuMemAlloc_v2(&p, 4096) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&again, 0) == CUDA_SUCCESS);
  }
  CHECK(parkade_test_allocations() == before + 1);
  CHECK(cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
  CHECK(parkade_test_allocations() == before);
  Context context;
  CUdeviceptr p = 0;
  REQUIRE(cuMemAlloc_v2(&p, 4096) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
  CHECK(parkade_test_allocations() == before);
}
