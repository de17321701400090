// Memory that stays the driver's own, under the hooks on the simulated GPU: counted while it lives.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "common/bytes.h"
#include "proto/ledger.h"
#include "tests/unit/shim/hooks/context.h"
#include "tests/unit/shim/hooks/levers.h"

using namespace parkade;

namespace {

uint64_t Counted(wire::ForeignKind kind) {
  return parkade_test_foreign_bytes_of(0, uint32_t(kind));
}

}  // namespace

TEST_CASE("memory of a communication library stays native and is counted") {
  Context context;
  void* library = dlopen(PARKADE_LIBNCCL, RTLD_LAZY | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  auto* alloc =
      reinterpret_cast<int (*)(unsigned long long*, size_t)>(dlsym(library, "nccl_like_alloc"));
  auto* release = reinterpret_cast<int (*)(unsigned long long)>(dlsym(library, "nccl_like_free"));
  const uint64_t before = parkade_test_allocations();
  unsigned long long p = 0;
  REQUIRE(alloc(&p, 1 << 20) == 0);
  CHECK(parkade_test_allocations() == before);
  CHECK(parkade_test_foreign_bytes() == 1 << 20);
  // Refused on a thread without a context, it is there as before.
  std::thread([&] {
    CHECK(cuMemFreeAsync(p, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(parkade_test_foreign_bytes() == 1 << 20);
  }).join();
  CHECK(parkade_test_ledger_says("NCCL_GRAPH_REGISTER=0 and NCCL_LOCAL_REGISTER=0 keep it from"));
  CHECK(release(p) == 0);
  CHECK(parkade_test_foreign_bytes() == 0);
  CHECK(release(p) != 0);
  CHECK(parkade_test_foreign_bytes() == 0);
  REQUIRE(alloc(&p, 1 << 20) == 0);
  CHECK(cuMemFreeAsync(p, nullptr) == CUDA_SUCCESS);
  CHECK(parkade_test_foreign_bytes() == 0);
  dlclose(library);
}

TEST_CASE("memory that another process has exported is not taken for a communication library's") {
  Context context;
  void* library = dlopen(PARKADE_LIBNCCL, RTLD_LAZY | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  auto* map = reinterpret_cast<int (*)(unsigned long long, size_t, unsigned long long)>(
      dlsym(library, "nccl_like_map"));
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle made = 0, imported = 0;
  CUdeviceptr at = 0;
  int fd = -1;
  REQUIRE(cuMemCreate(&made, 2_MiB, &prop, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemExportToShareableHandle(&fd, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
          CUDA_SUCCESS);
  REQUIRE(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(uintptr_t(fd)),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressReserve(&at, 4_MiB, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(at, 2_MiB, 0, imported, 0) == CUDA_SUCCESS);
  CHECK(Counted(wire::ForeignKind::kNative) == 2_MiB);
  CHECK(Counted(wire::ForeignKind::kCommunication) == 0);
  REQUIRE(map(at + 2_MiB, 2_MiB, imported) == 0);
  CHECK(Counted(wire::ForeignKind::kNative) == 2_MiB);
  CHECK(Counted(wire::ForeignKind::kCommunication) == 2_MiB);
  CHECK(cuMemUnmap(at, 4_MiB) == CUDA_SUCCESS);
  CHECK(parkade_test_foreign_bytes() == 0);
  CHECK(cuMemAddressFree(at, 4_MiB) == CUDA_SUCCESS);
  CHECK(cuMemRelease(imported) == CUDA_SUCCESS);
  CHECK(cuMemRelease(made) == CUDA_SUCCESS);
  close(fd);
  dlclose(library);
}

TEST_CASE("pinned host memory is forgotten with its context, destroyed or reset") {
  Context context;
  alignas(4096) static char pages[2][4096];
  void* kept = nullptr;
  REQUIRE(cuMemHostAlloc(&kept, 4096, 0) == CUDA_SUCCESS);
  CHECK(parkade_test_pinned_bytes() == 4096);

  CUcontext other = nullptr;
  void* pinned = nullptr;
  REQUIRE(cuCtxCreate_v2(&other, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemAllocHost_v2(&pinned, 8192) == CUDA_SUCCESS);
  REQUIRE(cuMemHostRegister_v2(pages[0], sizeof pages[0], 0) == CUDA_SUCCESS);
  CHECK(parkade_test_pinned_bytes() == 4 * 4096);
  REQUIRE(cuCtxDestroy_v2(other) == CUDA_SUCCESS);
  CHECK(parkade_test_pinned_bytes() == 4096);

  REQUIRE(cuCtxSetCurrent(context.get()) == CUDA_SUCCESS);
  REQUIRE(cuMemHostRegister_v2(pages[1], sizeof pages[1], 0) == CUDA_SUCCESS);
  // Refused, it is pinned as before.
  CHECK(cuMemFreeHost(pages[1]) != CUDA_SUCCESS);
  CHECK(parkade_test_pinned_bytes() == 2 * 4096);
  REQUIRE(cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
  CHECK(parkade_test_pinned_bytes() == 0);
}

TEST_CASE("memory of graphs is counted from the launch on") {
  Context context;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  params.bytesize = 4_MiB;
  REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  const uint64_t before = parkade_test_tracked_calls("cuGraphAddMemAllocNode");
  REQUIRE(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params) == CUDA_SUCCESS);
  CHECK(parkade_test_tracked_calls("cuGraphAddMemAllocNode") == before + 1);
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(exec, nullptr) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(Counted(wire::ForeignKind::kGraph) == 4_MiB);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
  CHECK(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);
  CHECK(Counted(wire::ForeignKind::kGraph) == 0);
}
