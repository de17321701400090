// What the driver says of an address: native memory beside memory of cuMemCreate.
#include "tests/unit/sim/gpu.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

// Two handles of 2 MiB in one reservation.
class TwoHandles {
 public:
  explicit TwoHandles(const Gpu& gpu) {
    const auto prop = gpu.Exportable();
    const auto access = gpu.ReadWrite();
    REQUIRE(cuMemAddressReserve(&at, 4_MiB, 0, 0, 0) == CUDA_SUCCESS);
    for (int i : {0, 1}) {
      REQUIRE(cuMemCreate(&handles_[i], 2_MiB, &prop, 0) == CUDA_SUCCESS);
      REQUIRE(cuMemMap(at + unsigned(i) * 2_MiB, 2_MiB, 0, handles_[i], 0) == CUDA_SUCCESS);
    }
    REQUIRE(cuMemSetAccess(at, 4_MiB, &access, 1) == CUDA_SUCCESS);
  }
  ~TwoHandles() {
    cuMemUnmap(at, 4_MiB);
    for (const auto handle : handles_) cuMemRelease(handle);
    cuMemAddressFree(at, 4_MiB);
  }
  TwoHandles(const TwoHandles&) = delete;
  TwoHandles& operator=(const TwoHandles&) = delete;
  CUdeviceptr at = 0;

 private:
  CUmemGenericAllocationHandle handles_[2] = {};
};

uint64_t Ask(CUpointer_attribute attribute, CUdeviceptr at) {
  uint64_t value = 0;
  REQUIRE(cuPointerGetAttribute(&value, attribute, at) == CUDA_SUCCESS);
  return value;
}

}  // namespace

TEST_CASE("the attributes that differ between native and mapped memory differ") {
  const Gpu gpu;
  const Buffer native(4_MiB);
  const TwoHandles vmm(gpu);
  const CUdeviceptr n = native.at() + 100, v = vmm.at + 2_MiB + 100;
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, n) == 1);
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, v) == 0);
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_CONTEXT, n) == reinterpret_cast<uint64_t>(gpu.context()));
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_CONTEXT, v) == 0);
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, n) == 0);
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, v) == 1);
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, n) == 4_MiB);
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, v) == 2_MiB);
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, n) == 1);
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, v) == 0);
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, n) == 1);
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, v) == 0);
}

TEST_CASE("the attributes that agree agree") {
  const Gpu gpu;
  const Buffer native(4_MiB);
  const TwoHandles vmm(gpu);
  for (const CUdeviceptr base : {native.at(), vmm.at}) {
    const CUdeviceptr inside = base + 3_MiB;
    REQUIRE(Ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside) == CU_MEMORYTYPE_DEVICE);
    REQUIRE(Ask(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, inside) == inside);
    REQUIRE(Ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside) == 0);
    REQUIRE(Ask(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside) == base);
    REQUIRE(Ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside) == 4_MiB);
    REQUIRE(Ask(CU_POINTER_ATTRIBUTE_MAPPED, inside) == 1);
    REQUIRE(Ask(CU_POINTER_ATTRIBUTE_IS_MANAGED, inside) == 0);
  }
}

TEST_CASE("the address range of mapped memory is one handle") {
  const Gpu gpu;
  const Buffer native(4_MiB);
  const TwoHandles vmm(gpu);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  REQUIRE(cuMemGetAddressRange(&base, &bytes, native.at() + 3_MiB) == CUDA_SUCCESS);
  REQUIRE(base == native.at());
  REQUIRE(bytes == 4_MiB);
  REQUIRE(cuMemGetAddressRange(&base, &bytes, vmm.at + 3_MiB) == CUDA_SUCCESS);
  REQUIRE(base == vmm.at + 2_MiB);
  REQUIRE(bytes == 2_MiB);
}

TEST_CASE("an address nobody knows is refused one by one and zero in a list") {
  const Gpu gpu;
  int local = 0;
  const auto at = CUdeviceptr(reinterpret_cast<uintptr_t>(&local));
  unsigned type = 7;
  REQUIRE(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) ==
          CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
  void* data[] = {&type};
  REQUIRE(cuPointerGetAttributes(1, attributes, data, at) == CUDA_SUCCESS);
  REQUIRE(type == 0);
}

TEST_CASE("pinned host memory says so") {
  const Gpu gpu;
  void* host = nullptr;
  REQUIRE(cuMemHostAlloc(&host, 10'000, 0) == CUDA_SUCCESS);
  const auto at = CUdeviceptr(reinterpret_cast<uintptr_t>(host));
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 5) == CU_MEMORYTYPE_HOST);
  REQUIRE(Ask(CU_POINTER_ATTRIBUTE_HOST_POINTER, at + 5) == at + 5);
  CUdeviceptr device = 0;
  REQUIRE(cuMemHostGetDevicePointer(&device, host, 0) == CUDA_SUCCESS);
  REQUIRE(device == at);
  REQUIRE(cuMemFreeHost(host) == CUDA_SUCCESS);
}
