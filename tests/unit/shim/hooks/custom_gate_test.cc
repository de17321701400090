// Every name with a handler under a closed gate, on the simulated GPU: which wait, and which pass.
#include <cuda.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "shim/hooks/entries.h"
#include "tests/unit/shim/hooks/levers.h"
#include "tests/unit/shim/hooks/within.h"

using parkade::shim::Policy;

namespace {

constexpr size_t kBytes = 2 << 20;
constexpr CUmemPoolProps kPoolProperties = [] {
  CUmemPoolProps p{};
  p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return p;
}();

// What the calls are about; made while the gate is open.
struct World {
  CUcontext context = nullptr;
  CUcontext doomed[2] = {};  // for the two forms of cuCtxDestroy
  CUstream stream = nullptr;
  CUstream doomed_streams[2] = {};
  CUstream capturing[2] = {};  // relaxed captures, for the two forms of cuStreamEndCapture
  CUdeviceptr memory = 0;
  CUdeviceptr to_free[3] = {};
  CUmemoryPool pool = nullptr;
  CUmemoryPool doomed_pool = nullptr;
  void* pinned = nullptr;
};

// Host memory to register: for the two forms of cuMemHostRegister, and registered from the start.
alignas(4096) char host_pages[3][4096];

World& TheWorld() {
  static World* const world = [] {
    auto* w = new World;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    for (CUcontext& c : w->doomed) REQUIRE(cuCtxCreate_v2(&c, 0, 0) == CUDA_SUCCESS);
    // Once more than is released, so that its memory stays.
    for (int i = 0; i < 2; ++i) REQUIRE(cuDevicePrimaryCtxRetain(&w->context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(w->context) == CUDA_SUCCESS);
    REQUIRE(cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    for (CUstream& s : w->doomed_streams)
      REQUIRE(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    for (CUstream& s : w->capturing)
      REQUIRE(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    REQUIRE(cuMemAlloc_v2(&w->memory, kBytes) == CUDA_SUCCESS);
    for (CUdeviceptr& p : w->to_free) REQUIRE(cuMemAlloc_v2(&p, kBytes) == CUDA_SUCCESS);
    for (CUmemoryPool* pool : {&w->pool, &w->doomed_pool})
      REQUIRE(cuMemPoolCreate(pool, &kPoolProperties) == CUDA_SUCCESS);
    REQUIRE(cuMemHostAlloc(&w->pinned, kBytes, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemHostRegister_v2(host_pages[2], sizeof host_pages[2], 0) == CUDA_SUCCESS);
    return w;
  }();
  return *world;
}

enum class At { kWaits, kPasses };
struct Handled {
  At gate;
  std::function<void(World&)> call;
};

CUmemoryPool OwnPool() {
  CUmemoryPool pool = nullptr;
  cuDeviceGetDefaultMemPool(&pool, 0);
  return pool;
}

// Ends a capture, if one has begun.
void Capture(CUstream stream) {
  CUgraph graph = nullptr;
  cuStreamEndCapture(stream, &graph);
  if (graph != nullptr) cuGraphDestroy(graph);
}

const std::map<std::string, Handled>& Table() {
  using enum At;
  static CUcontext made;
  static CUstream made_stream;
  static CUdeviceptr p;
  static CUmemoryPool made_pool;
  static CUarray array;
  static CUmipmappedArray mipmapped;
  static CUDA_ARRAY_DESCRIPTOR shape = {16, 16, CU_AD_FORMAT_FLOAT, 1};
  static CUDA_ARRAY3D_DESCRIPTOR shape3d = {16, 16, 16, CU_AD_FORMAT_FLOAT, 1, 0};
  static void* pinned;
  static size_t pitch, size;
  static uint64_t value[4];
  static void* to = value;
  static void* found;
  static CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_RANGE_SIZE;
  static CUmemGenericAllocationHandle handle;
  static CUmemAllocationProp prop;
  static CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                   CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  static CUipcMemHandle token;
  static int fd = -1;
  static unsigned on = 1;
  static CUDA_MEM_ALLOC_NODE_PARAMS node_params;
  static CUgraphNodeParams any_node_params;
  static const std::map<std::string, Handled> table = {
      {"cuGetProcAddress",
       {kPasses, [](World&) { cuGetProcAddress("cuMemAlloc", &found, 12000, 0); }}},
      {"cuGetProcAddress_v2",
       {kPasses, [](World&) { cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, nullptr); }}},
      {"cuMemAlloc_v2", {kWaits, [](World&) { cuMemFree_v2((cuMemAlloc_v2(&p, 10), p)); }}},
      {"cuMemAllocPitch_v2",
       {kWaits, [](World&) { cuMemFree_v2((cuMemAllocPitch_v2(&p, &pitch, 10, 10, 4), p)); }}},
      {"cuMemFree_v2", {kPasses, [](World& w) { cuMemFree_v2(w.to_free[0]); }}},
      {"cuMemFreeAsync", {kPasses, [](World& w) { cuMemFreeAsync(w.to_free[1], w.stream); }}},
      {"cuMemFreeAsync_ptsz",
       {kPasses, [](World& w) { cuMemFreeAsync_ptsz(w.to_free[2], w.stream); }}},
      {"cuMemRetainAllocationHandle",
       {kPasses,
        [](World& w) { cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(w.memory)); }}},
      {"cuMemGetHandleForAddressRange",
       {kWaits,
        [](World& w) {
          cuMemGetHandleForAddressRange(&fd, w.memory, kBytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                        0);
          close(fd);
        }}},
      {"cuPointerSetAttribute",
       {kWaits,
        [](World& w) { cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, w.memory); }}},
      {"cuMemGetAddressRange_v2",
       {kPasses, [](World& w) { cuMemGetAddressRange_v2(&p, &size, w.memory); }}},
      {"cuPointerGetAttribute",
       {kPasses, [](World& w) { cuPointerGetAttribute(value, attribute, w.memory); }}},
      {"cuPointerGetAttributes",
       {kPasses, [](World& w) { cuPointerGetAttributes(1, &attribute, &to, w.memory); }}},
      {"cuMemAllocManaged",
       {kWaits,
        [](World&) { cuMemFree_v2((cuMemAllocManaged(&p, 10, CU_MEM_ATTACH_GLOBAL), p)); }}},
      {"cuMemAllocAsync",
       {kWaits, [](World& w) { cuMemFree_v2((cuMemAllocAsync(&p, 10, w.stream), p)); }}},
      {"cuMemAllocAsync_ptsz",
       {kWaits, [](World& w) { cuMemFree_v2((cuMemAllocAsync_ptsz(&p, 10, w.stream), p)); }}},
      {"cuMemAllocFromPoolAsync",
       {kWaits,
        [](World& w) { cuMemFree_v2((cuMemAllocFromPoolAsync(&p, 10, w.pool, w.stream), p)); }}},
      {"cuMemAllocFromPoolAsync_ptsz",
       {kWaits,
        [](World& w) {
          cuMemFree_v2((cuMemAllocFromPoolAsync_ptsz(&p, 10, w.pool, w.stream), p));
        }}},
      {"cuMemPoolCreate",
       {kWaits,
        [](World&) {
          cuMemPoolDestroy((cuMemPoolCreate(&made_pool, &kPoolProperties), made_pool));
        }}},
      // As it is, so that the other calls find what they know.
      {"cuDeviceSetMemPool", {kPasses, [](World&) { cuDeviceSetMemPool(0, OwnPool()); }}},
      {"cuMemSetMemPool",
       {kPasses,
        [](World&) {
          CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
          cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, OwnPool());
        }}},
      {"cuMemPoolTrimTo", {kWaits, [](World& w) { cuMemPoolTrimTo(w.pool, 0); }}},
      {"cuMemPoolDestroy", {kWaits, [](World& w) { cuMemPoolDestroy(w.doomed_pool); }}},
      // Refused for null graphs, but at the gate all the same.
      {"cuGraphAddMemAllocNode",
       {kWaits,
        [](World&) { cuGraphAddMemAllocNode(nullptr, nullptr, nullptr, 0, &node_params); }}},
      {"cuGraphAddNode",
       {kWaits, [](World&) { cuGraphAddNode(nullptr, nullptr, nullptr, 0, &any_node_params); }}},
      {"cuGraphAddNode_v2",
       {kWaits,
        [](World&) {
          cuGraphAddNode_v2(nullptr, nullptr, nullptr, nullptr, 0, &any_node_params);
        }}},
      {"cuGraphLaunch", {kWaits, [](World& w) { cuGraphLaunch(nullptr, w.stream); }}},
      {"cuGraphLaunch_ptsz", {kWaits, [](World& w) { cuGraphLaunch_ptsz(nullptr, w.stream); }}},
      {"cuDeviceGraphMemTrim", {kWaits, [](World&) { cuDeviceGraphMemTrim(0); }}},
      // The simulated GPU has no arrays.
      {"cuArrayCreate_v2", {kWaits, [](World&) { cuArrayCreate_v2(&array, &shape); }}},
      {"cuArray3DCreate_v2", {kWaits, [](World&) { cuArray3DCreate_v2(&array, &shape3d); }}},
      {"cuMipmappedArrayCreate",
       {kWaits, [](World&) { cuMipmappedArrayCreate(&mipmapped, &shape3d, 1); }}},
      {"cuArrayDestroy", {kWaits, [](World&) { cuArrayDestroy(nullptr); }}},
      {"cuMipmappedArrayDestroy", {kWaits, [](World&) { cuMipmappedArrayDestroy(nullptr); }}},
      {"cuMemAllocHost_v2", {kPasses, [](World&) { cuMemAllocHost_v2(&pinned, 10); }}},
      {"cuMemHostAlloc", {kPasses, [](World&) { cuMemHostAlloc(&pinned, 10, 0); }}},
      {"cuMemHostRegister",
       {kPasses, [](World&) { cuMemHostRegister(host_pages[0], sizeof host_pages[0], 0); }}},
      {"cuMemHostRegister_v2",
       {kPasses, [](World&) { cuMemHostRegister_v2(host_pages[1], sizeof host_pages[1], 0); }}},
      {"cuMemFreeHost", {kWaits, [](World& w) { cuMemFreeHost(w.pinned); }}},
      {"cuMemHostUnregister", {kWaits, [](World&) { cuMemHostUnregister(host_pages[2]); }}},
      // Refused by the driver, but at the gate all the same.
      {"cuMemCreate", {kWaits, [](World&) { cuMemCreate(&handle, 1, nullptr, 0); }}},
      {"cuMemRelease", {kWaits, [](World&) { cuMemRelease(0); }}},
      {"cuMemMap", {kWaits, [](World&) { cuMemMap(0, kBytes, 0, 0, 0); }}},
      {"cuMemUnmap", {kWaits, [](World&) { cuMemUnmap(0, kBytes); }}},
      {"cuMemSetAccess", {kWaits, [](World&) { cuMemSetAccess(0, kBytes, &access, 1); }}},
      {"cuMemAddressFree", {kWaits, [](World&) { cuMemAddressFree(0, kBytes); }}},
      {"cuMemExportToShareableHandle",
       {kWaits,
        [](World&) {
          cuMemExportToShareableHandle(&fd, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        }}},
      {"cuMemMapArrayAsync", {kWaits, [](World& w) { cuMemMapArrayAsync(nullptr, 0, w.stream); }}},
      {"cuMemMapArrayAsync_ptsz",
       {kWaits, [](World& w) { cuMemMapArrayAsync_ptsz(nullptr, 0, w.stream); }}},
      {"cuMulticastBindMem", {kWaits, [](World&) { cuMulticastBindMem(0, 0, 0, 0, kBytes, 0); }}},
      {"cuMulticastBindAddr", {kWaits, [](World&) { cuMulticastBindAddr(0, 0, 0, kBytes, 0); }}},
      {"cuMemHostGetDevicePointer_v2",
       {kWaits,
        [](World& w) { cuMemHostGetDevicePointer_v2(&p, reinterpret_cast<void*>(w.memory), 0); }}},
      {"cuMemHostGetFlags",
       {kPasses,
        [](World& w) {
          unsigned flags = 0;
          cuMemHostGetFlags(&flags, reinterpret_cast<void*>(w.memory));
        }}},
      {"cuMemGetAccess",
       {kPasses,
        [](World& w) {
          unsigned long long flags = 0;
          cuMemGetAccess(&flags, &access.location, w.memory);
        }}},
      {"cuMemGetAllocationPropertiesFromHandle",
       {kPasses, [](World&) { cuMemGetAllocationPropertiesFromHandle(&prop, 0); }}},
      {"cuIpcGetMemHandle", {kWaits, [](World& w) { cuIpcGetMemHandle(&token, w.memory); }}},
      {"cuIpcOpenMemHandle", {kWaits, [](World&) { cuIpcOpenMemHandle(&p, CUipcMemHandle{}, 1); }}},
      {"cuIpcOpenMemHandle_v2",
       {kWaits, [](World&) { cuIpcOpenMemHandle_v2(&p, CUipcMemHandle{}, 1); }}},
      {"cuIpcCloseMemHandle", {kWaits, [](World&) { cuIpcCloseMemHandle(16); }}},
      {"cuCtxEnablePeerAccess", {kWaits, [](World& w) { cuCtxEnablePeerAccess(w.context, 0); }}},
      {"cuCtxDisablePeerAccess", {kWaits, [](World& w) { cuCtxDisablePeerAccess(w.context); }}},
      {"cuCtxCreate", {kWaits, [](World&) { cuCtxDestroy_v2((cuCtxCreate(&made, 0, 0), made)); }}},
      {"cuCtxCreate_v2",
       {kWaits, [](World&) { cuCtxDestroy_v2((cuCtxCreate_v2(&made, 0, 0), made)); }}},
      {"cuCtxCreate_v3",
       {kWaits, [](World&) { cuCtxDestroy_v2((cuCtxCreate_v3(&made, nullptr, 0, 0, 0), made)); }}},
      {"cuCtxCreate_v4",
       {kWaits, [](World&) { cuCtxDestroy_v2((cuCtxCreate_v4(&made, nullptr, 0, 0), made)); }}},
      // Refused for a null green context, but at the gate all the same.
      {"cuCtxFromGreenCtx", {kWaits, [](World&) { cuCtxFromGreenCtx(&made, nullptr); }}},
      {"cuCtxDestroy", {kWaits, [](World& w) { cuCtxDestroy(w.doomed[0]); }}},
      {"cuCtxDestroy_v2", {kWaits, [](World& w) { cuCtxDestroy_v2(w.doomed[1]); }}},
      {"cuDevicePrimaryCtxRetain", {kWaits, [](World&) { cuDevicePrimaryCtxRetain(&made, 0); }}},
      {"cuDevicePrimaryCtxRelease",
       {kWaits,
        [](World&) {
          cuDevicePrimaryCtxRelease(0);
          cuDevicePrimaryCtxRetain(&made, 0);
        }}},
      {"cuDevicePrimaryCtxRelease_v2",
       {kWaits,
        [](World&) {
          cuDevicePrimaryCtxRelease_v2(0);
          cuDevicePrimaryCtxRetain(&made, 0);
        }}},
      // Of a device that has none, so that what the other calls use stays.
      {"cuDevicePrimaryCtxReset", {kWaits, [](World&) { cuDevicePrimaryCtxReset(9); }}},
      {"cuDevicePrimaryCtxReset_v2", {kWaits, [](World&) { cuDevicePrimaryCtxReset_v2(9); }}},
      {"cuStreamBeginCapture",
       {kWaits, [](World& w) { Capture((cuStreamBeginCapture(w.stream), w.stream)); }}},
      {"cuStreamBeginCapture_ptsz",
       {kWaits, [](World& w) { Capture((cuStreamBeginCapture_ptsz(w.stream), w.stream)); }}},
      {"cuStreamBeginCapture_v2",
       {kWaits,
        [](World& w) {
          Capture((cuStreamBeginCapture_v2(w.stream, CU_STREAM_CAPTURE_MODE_RELAXED), w.stream));
        }}},
      {"cuStreamBeginCapture_v2_ptsz",
       {kWaits,
        [](World& w) {
          Capture(
              (cuStreamBeginCapture_v2_ptsz(w.stream, CU_STREAM_CAPTURE_MODE_RELAXED), w.stream));
        }}},
      {"cuStreamBeginCaptureToGraph",
       {kWaits,
        [](World& w) {
          cuStreamBeginCaptureToGraph(w.stream, nullptr, nullptr, nullptr, 0,
                                      CU_STREAM_CAPTURE_MODE_RELAXED);
        }}},
      {"cuStreamBeginCaptureToGraph_ptsz",
       {kWaits,
        [](World& w) {
          cuStreamBeginCaptureToGraph_ptsz(w.stream, nullptr, nullptr, nullptr, 0,
                                           CU_STREAM_CAPTURE_MODE_RELAXED);
        }}},
      // Of streams that capture nothing: no gate closes while one does.
      {"cuStreamEndCapture", {kPasses, [](World& w) { Capture(w.capturing[0]); }}},
      {"cuStreamEndCapture_ptsz",
       {kPasses,
        [](World& w) {
          CUgraph graph = nullptr;
          cuStreamEndCapture_ptsz(w.capturing[1], &graph);
        }}},
      {"cuStreamCreate",
       {kWaits,
        [](World&) { cuStreamDestroy_v2((cuStreamCreate(&made_stream, 0), made_stream)); }}},
      {"cuStreamCreateWithPriority",
       {kWaits,
        [](World&) {
          cuStreamDestroy_v2((cuStreamCreateWithPriority(&made_stream, 0, 0), made_stream));
        }}},
      {"cuStreamDestroy", {kWaits, [](World& w) { cuStreamDestroy(w.doomed_streams[0]); }}},
      {"cuStreamDestroy_v2", {kWaits, [](World& w) { cuStreamDestroy_v2(w.doomed_streams[1]); }}},
  };
  return table;
}

}  // namespace

TEST_CASE("every name with a handler waits at a closed gate, or passes it, as it should") {
  World& world = TheWorld();
  int waiting = 0, passing = 0;
  for (int i = 0; i < parkade::shim::kEntryCount; ++i) {
    const auto entry = parkade::shim::Entry(i);
    if (parkade::shim::PolicyOf(entry) != Policy::kCustom) continue;
    const std::string name = parkade::shim::NameOf(entry);
    INFO(name);
    const auto handled = Table().find(name);
    REQUIRE(handled != Table().end());
    REQUIRE(parkade_test_close_gate(1000) == 0);
    std::atomic<bool> done{false};
    std::thread caller([&] {
      cuCtxSetCurrent(world.context);
      handled->second.call(world);
      done = true;
    });
    if (handled->second.gate == At::kWaits) {
      ++waiting;
      CHECK(Within10s([&] { return parkade_test_waiting_threads() == 1; }));
      CHECK_FALSE(done);
    } else {
      ++passing;
      CHECK(Within10s([&] { return done.load(); }));
      CHECK(parkade_test_waiting_threads() == 0);
    }
    parkade_test_open_gate();
    caller.join();
  }
  std::printf("%d names with handlers wait at a closed gate, %d pass it\n", waiting, passing);
  CHECK(size_t(waiting + passing) == Table().size());
}
