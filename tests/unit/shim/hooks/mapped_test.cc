// The handlers of virtual memory management over heap and gate on the simulated GPU: the driver's
// own answers, what stays native, what is held, and that nothing is left behind.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/shim/hooks/levers.h"

namespace {

using Handle = CUmemGenericAllocationHandle;

constexpr size_t kMiB = 1 << 20;
constexpr size_t kBytes = 2 * kMiB;
constexpr size_t kReserved = 256 * kMiB;
constexpr CUmemAccessDesc kFull = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                   CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

CUmemAllocationProp OnDevice() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return prop;
}

// The primary context of device 0 and a reservation. Nothing is foreign or held before and after.
class Reserved {
 public:
  Reserved() {
    CUcontext context;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    REQUIRE(cuMemAddressReserve(&base, kReserved, 0, 0, 0) == CUDA_SUCCESS);
  }
  ~Reserved() {
    CHECK(cuMemAddressFree(base, kReserved) == CUDA_SUCCESS);
    CHECK(parkade_test_foreign_bytes() == 0);
    CHECK(parkade_test_held_bytes() == 0);
    const CUcontext none = nullptr;
    cuCtxSetCurrent(none);
    cuDevicePrimaryCtxRelease_v2(0);
  }
  Handle Make(size_t at, size_t bytes = kBytes) const {
    Handle handle = 0;
    const CUmemAllocationProp prop = OnDevice();
    REQUIRE(cuMemCreate(&handle, bytes, &prop, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemMap(base + at, bytes, 0, handle, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemSetAccess(base + at, bytes, &kFull, 1) == CUDA_SUCCESS);
    return handle;
  }
  CUdeviceptr base = 0;
};

size_t OpenDescriptors() {
  size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

size_t FreeBytes() {
  size_t free = 0, total = 0;
  REQUIRE(cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS);
  return free;
}

}  // namespace

TEST_CASE("edge calls of virtual memory management have the driver's own answers") {
  const Reserved r;
  const Handle handle = r.Make(0), never = handle + 1000;
  CUmemAllocationProp prop = OnDevice();
  Handle other = 1;
  CHECK(cuMemCreate(nullptr, kBytes, &prop, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemCreate(&other, kBytes + 1, &prop, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemCreate(&other, kBytes, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemCreate(&other, size_t(1) << 45, &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  prop.location.id = 99;
  CHECK(cuMemCreate(&other, kBytes, &prop, 0) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(other == 1);

  const CUdeviceptr free_place = r.base + 8 * kMiB;
  CHECK(cuMemMap(free_place, kBytes, kBytes, handle, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuMemMap(free_place, kMiB, 0, handle, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuMemMap(free_place + 4096, kBytes, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemMap(r.base, kBytes, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemMap(free_place, kBytes, 0, never, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(r.base, kMiB) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(r.base + kMiB, kMiB) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(free_place, kBytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(r.base, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetAccess(free_place, kBytes, &kFull, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetAccess(r.base, kMiB, &kFull, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetAccess(r.base, 2 * kBytes, &kFull, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAddressFree(r.base, kReserved) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree_v2(r.base) == CUDA_ERROR_INVALID_VALUE);
  CUipcMemHandle ipc;
  CHECK(cuIpcGetMemHandle(&ipc, r.base) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemGetAllocationPropertiesFromHandle(&prop, never) == CUDA_ERROR_INVALID_VALUE);
  int fd = -1;
  CHECK(cuMemExportToShareableHandle(&fd, never, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemRetainAllocationHandle(nullptr, reinterpret_cast<void*>(r.base)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemRetainAllocationHandle(&other, reinterpret_cast<void*>(free_place)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemRelease(never) == CUDA_ERROR_INVALID_VALUE);

  CHECK(cuMemRetainAllocationHandle(&other, reinterpret_cast<void*>(r.base + 77)) == CUDA_SUCCESS);
  CHECK(other == handle);
  CHECK(cuMemGetAllocationPropertiesFromHandle(&prop, other) == CUDA_SUCCESS);
  CHECK(prop.location.id == 0);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemsetD8_v2(r.base, 1, kBytes) == CUDA_SUCCESS);  // mapped: it lives
  CHECK(cuMemUnmap(r.base, kReserved) == CUDA_SUCCESS);
  CHECK(cuMemsetD8_v2(r.base, 1, kBytes) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("what is true of virtual memory alone is not said of an allocation") {
  const Reserved r;
  CUdeviceptr p = 0, mapped = 7;
  REQUIRE(cuMemAlloc_v2(&p, 4096) == CUDA_SUCCESS);
  unsigned flags = 77;
  CHECK(cuMemHostGetFlags(&flags, reinterpret_cast<void*>(p)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(flags == 77);
  CHECK(cuMemHostGetDevicePointer_v2(&mapped, reinterpret_cast<void*>(p), 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(mapped == 0);
  unsigned long long access = 77;
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK(cuMemGetAccess(&access, &location, p) == CUDA_SUCCESS);
  CHECK(access == 0);
  location.id = 99;
  CHECK(cuMemGetAccess(&access, &location, p) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
}

TEST_CASE("memory of the heap is out of reach of these calls") {
  const Reserved r;
  CUdeviceptr p = 0;
  REQUIRE(cuMemAlloc_v2(&p, kBytes) == CUDA_SUCCESS);
  CHECK(cuMulticastBindAddr(1, 0, p, kBytes, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
}

TEST_CASE(
    "what an address is stays the driver's to say, but for ids that a pause must not change") {
  const Reserved r;
  const Handle handle = r.Make(0);
  CUdeviceptr start = 0;
  size_t size = 0;
  CHECK(cuMemGetAddressRange_v2(&start, &size, r.base + 5) == CUDA_SUCCESS);
  CHECK(start == r.base);
  CHECK(size == kBytes);
  CHECK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, r.base) == CUDA_SUCCESS);
  CHECK(size == kReserved);
  unsigned long long id = 0, same = 0, flags = 0;
  CHECK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, r.base) == CUDA_SUCCESS);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                      CU_POINTER_ATTRIBUTE_MAPPING_SIZE};
  void* to[] = {&same, &size};
  CHECK(cuPointerGetAttributes(2, attributes, to, r.base + 9) == CUDA_SUCCESS);
  CHECK(same == id);
  CHECK(size == kBytes);
  CHECK(cuMemGetAccess(&flags, &kFull.location, r.base) == CUDA_SUCCESS);
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(cuMemUnmap(r.base, kBytes) == CUDA_SUCCESS);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
}

TEST_CASE("memory of a communication library and of other processes is native and counted") {
  const Reserved r;
  void* library = dlopen(PARKADE_LIBNCCL, RTLD_LAZY | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  auto* create =
      reinterpret_cast<int (*)(Handle*, size_t, const void*)>(dlsym(library, "nccl_like_create"));
  const CUmemAllocationProp prop = OnDevice();
  Handle native = 0, imported = 0;
  REQUIRE(create(&native, kBytes, &prop) == 0);
  CHECK(native >> 48 != 0x504b);
  CHECK(parkade_test_foreign_bytes() == 0);
  REQUIRE(cuMemMap(r.base, kBytes, 0, native, 0) == CUDA_SUCCESS);
  CHECK(parkade_test_foreign_bytes() == kBytes);
  int fd = -1;
  REQUIRE(cuMemExportToShareableHandle(&fd, native, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
          CUDA_SUCCESS);
  REQUIRE(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(intptr_t(fd)),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
  close(fd);
  REQUIRE(cuMemMap(r.base + kBytes, kBytes, 0, imported, 0) == CUDA_SUCCESS);
  CHECK(parkade_test_foreign_bytes() == 2 * kBytes);
  CHECK(cuMemSetAccess(r.base, 2 * kBytes, &kFull, 1) == CUDA_SUCCESS);
  CHECK(cuMemRelease(native) == CUDA_SUCCESS);
  // One call over native memory and memory of ours.
  const Handle ours = r.Make(2 * kBytes);
  CHECK(cuMemRelease(ours) == CUDA_SUCCESS);
  CHECK(cuMemUnmap(r.base, 3 * kBytes) == CUDA_SUCCESS);
  CHECK(cuMemRelease(imported) == CUDA_SUCCESS);
  CHECK(parkade_test_foreign_bytes() == 0);
  dlclose(library);
}

TEST_CASE("exported memory is held and said to be") {
  const Reserved r;
  const Handle exported = r.Make(0), plain = r.Make(kBytes);
  int fd = -1;
  CHECK_FALSE(parkade_test_ledger_says("shareable handle"));
  REQUIRE(cuMemExportToShareableHandle(&fd, exported, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                       0) == CUDA_SUCCESS);
  close(fd);
  CHECK(parkade_test_ledger_says("shareable handle"));
  CHECK(parkade_test_held_bytes() == kBytes);
  REQUIRE(cuMemGetHandleForAddressRange(&fd, r.base + kBytes, kBytes,
                                        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) == CUDA_SUCCESS);
  close(fd);
  CHECK(parkade_test_held_bytes() == 2 * kBytes);
  CHECK(cuMemUnmap(r.base, 2 * kBytes) == CUDA_SUCCESS);
  for (const Handle handle : {exported, plain}) CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
}

TEST_CASE("memory in a multicast object or a sparse array is held, under the driver's own handle") {
  const Reserved r;
  const Handle by_handle = r.Make(0), by_address = r.Make(kBytes), sparse = r.Make(2 * kBytes);
  Handle multicast = 0;
  const CUmulticastObjectProp prop = {1, kBytes, 0, 0};
  REQUIRE(cuMulticastCreate(&multicast, &prop) == CUDA_SUCCESS);
  CHECK(cuMulticastBindMem(multicast, 0, by_handle + 1000, 0, kBytes, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMulticastBindMem(multicast, 0, by_handle, kBytes, kBytes, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(parkade_test_held_bytes() == 0);
  CHECK(cuMulticastBindMem(multicast, 0, by_handle, 0, kBytes, 0) == CUDA_SUCCESS);
  CHECK(parkade_test_held_bytes() == kBytes);
  CHECK(cuMulticastBindAddr(multicast, 0, r.base + kBytes, kBytes, 0) == CUDA_SUCCESS);
  CHECK(parkade_test_held_bytes() == 2 * kBytes);
  CHECK(parkade_test_ledger_says("multicast"));
  CUarrayMapInfo list[2] = {};
  list[0].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
  list[1].memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  list[1].memHandle.memHandle = sparse;
  CHECK(cuMemMapArrayAsync(list, 2, nullptr) == CUDA_SUCCESS);
  CHECK(list[1].memHandle.memHandle == sparse);
  CHECK(parkade_test_held_bytes() == 3 * kBytes);
  CHECK(parkade_test_ledger_says("sparse array"));
  CHECK(cuMemMapArrayAsync(nullptr, 2, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(r.base, kReserved) == CUDA_SUCCESS);
  for (const Handle h : {by_handle, by_address, sparse, multicast}) {
    CHECK(cuMemRelease(h) == CUDA_SUCCESS);
  }
}

TEST_CASE("while the gate is closed making, mapping and allowing wait, and asking does not") {
  const Reserved r;
  const Handle handle = r.Make(0);
  REQUIRE(parkade_test_close_gate(1000) == 0);
  Handle retained = 0, late = 0;
  unsigned long long flags = 0;
  CUmemAllocationProp prop;
  CHECK(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(r.base)) == CUDA_SUCCESS);
  CHECK(cuMemGetAccess(&flags, &kFull.location, r.base) == CUDA_SUCCESS);
  CHECK(cuMemGetAllocationPropertiesFromHandle(&prop, retained) == CUDA_SUCCESS);
  std::thread threads[] = {
      std::thread([&] {
        prop = OnDevice();
        cuMemCreate(&late, kBytes, &prop, 0);
      }),
      std::thread([&] { cuMemMap(r.base + 8 * kMiB, kBytes, 0, handle, 0); }),
      std::thread([&] { cuMemSetAccess(r.base, kBytes, &kFull, 1); }),
  };
  while (parkade_test_waiting_threads() != 3) std::this_thread::yield();
  CHECK(late == 0);
  parkade_test_open_gate();
  for (std::thread& thread : threads) thread.join();
  CHECK(cuMemUnmap(r.base, kReserved) == CUDA_SUCCESS);
  for (const Handle h : {handle, retained, late}) CHECK(cuMemRelease(h) == CUDA_SUCCESS);
}

TEST_CASE("memory outlives its context, as it belongs to the device") {
  const Reserved r;
  CUcontext other = nullptr;
  REQUIRE(cuCtxCreate_v2(&other, 0, 0) == CUDA_SUCCESS);
  const Handle handle = r.Make(0);
  REQUIRE(cuMemsetD32_v2(r.base, 77, 1) == CUDA_SUCCESS);
  REQUIRE(cuCtxDestroy_v2(other) == CUDA_SUCCESS);
  unsigned word = 0;
  CUcontext primary = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(primary) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH_v2(&word, r.base, 4) == CUDA_SUCCESS);
  CHECK(word == 77);
  CHECK(cuMemUnmap(r.base, kBytes) == CUDA_SUCCESS);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
}

namespace {

// Afterwards the shim has in stock what it keeps at least: it lays in with allocations, and frees
// take of it.
void EmptyStock() {
  CUdeviceptr made[40];
  for (CUdeviceptr& p : made) REQUIRE(cuMemAlloc_v2(&p, 4096) == CUDA_SUCCESS);
  for (CUdeviceptr p : made) REQUIRE(cuMemFree_v2(p) == CUDA_SUCCESS);
}

}  // namespace

TEST_CASE("a hundred thousand allocations, frees, maps and unmaps leave nothing behind") {
  const Reserved r;
  std::mt19937 random(7);
  std::vector<CUdeviceptr> allocated;
  struct Segment {
    size_t at;
    Handle handle;  // 0: released early
  };
  std::vector<Segment> mapped;
  std::vector<size_t> places;
  for (size_t at = 0; at < kReserved; at += kBytes) places.push_back(at);
  // Warm: what the shim keeps for good is there.
  CUdeviceptr p = 0;
  for (const size_t bytes : {size_t(4096), 20 * kMiB}) {
    REQUIRE(cuMemAlloc_v2(&p, bytes) == CUDA_SUCCESS);
    REQUIRE(cuMemFree_v2(p) == CUDA_SUCCESS);
  }
  EmptyStock();
  const size_t free_before = FreeBytes(), descriptors = OpenDescriptors();
  const uint64_t records = parkade_test_allocations();
  bool right = true;
  for (int n = 0; n < 100'000; ++n) {
    const unsigned what = random() % 4;
    if (what == 0 && allocated.size() < 100) {
      allocated.push_back(0);
      right &= cuMemAlloc_v2(&allocated.back(),
                             random() % 40 == 0 ? 3 * kMiB : random() % 9000 + 1) == CUDA_SUCCESS;
    } else if (what == 1 && !allocated.empty()) {
      std::swap(allocated[random() % allocated.size()], allocated.back());
      right &= cuMemFree_v2(allocated.back()) == CUDA_SUCCESS;
      allocated.pop_back();
    } else if (what == 2 && mapped.size() < 60) {
      std::swap(places[random() % places.size()], places.back());
      mapped.push_back({places.back(), r.Make(places.back())});
      places.pop_back();
      if (random() % 2 == 0) right &= cuMemRelease(std::exchange(mapped.back().handle, 0)) == 0;
    } else if (!mapped.empty()) {
      std::swap(mapped[random() % mapped.size()], mapped.back());
      const Segment gone = mapped.back();
      right &= cuMemUnmap(r.base + gone.at, kBytes) == CUDA_SUCCESS;
      if (gone.handle != 0) right &= cuMemRelease(gone.handle) == CUDA_SUCCESS;
      places.push_back(gone.at);
      mapped.pop_back();
    }
  }
  CHECK(right);
  for (const CUdeviceptr ptr : allocated) CHECK(cuMemFree_v2(ptr) == CUDA_SUCCESS);
  for (const Segment& segment : mapped) {
    CHECK(cuMemUnmap(r.base + segment.at, kBytes) == CUDA_SUCCESS);
    if (segment.handle != 0) CHECK(cuMemRelease(segment.handle) == CUDA_SUCCESS);
  }
  EmptyStock();
  CHECK(FreeBytes() == free_before);
  CHECK(OpenDescriptors() == descriptors);
  CHECK(parkade_test_allocations() == records);
}
