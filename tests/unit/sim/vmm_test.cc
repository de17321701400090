// Virtual memory management: whole mappings, access, handles and their memory.
#include <unistd.h>

#include "tests/unit/sim/gpu.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

CUmemGenericAllocationHandle Create(const Gpu& gpu, Bytes bytes) {
  CUmemGenericAllocationHandle handle = 0;
  const auto prop = gpu.Exportable();
  REQUIRE(cuMemCreate(&handle, bytes, &prop, 0) == CUDA_SUCCESS);
  return handle;
}

CUdeviceptr Reserve(Bytes bytes) {
  CUdeviceptr at = 0;
  REQUIRE(cuMemAddressReserve(&at, bytes, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(at % 2_MiB == 0);
  return at;
}

}  // namespace

TEST_CASE("a range of two handles works as one, and comes back elsewhere with other bytes") {
  const Gpu gpu;
  const Bytes before = gpu.Free();
  const CUdeviceptr at = Reserve(6_MiB);
  CUmemGenericAllocationHandle handles[] = {Create(gpu, 2_MiB), Create(gpu, 4_MiB)};
  REQUIRE(gpu.Free() == before - 6_MiB);
  REQUIRE(cuMemMap(at, 2_MiB, 0, handles[0], 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(at + 2_MiB, 4_MiB, 0, handles[1], 0) == CUDA_SUCCESS);
  const auto access = gpu.ReadWrite();
  REQUIRE(cuMemSetAccess(at, 6_MiB, &access, 1) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32(at, 0x600df00d, 6_MiB / 4) == CUDA_SUCCESS);
  REQUIRE(ReadWords(at + 6_MiB - 4, 1)[0] == 0x600df00d);

  REQUIRE(cuMemUnmap(at, 3_MiB) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemUnmap(at + 2_MiB, 2_MiB) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemAddressFree(at, 6_MiB) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemUnmap(at, 6_MiB) == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before - 6_MiB);
  for (const auto handle : handles) REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before);
  REQUIRE(cuMemAddressFree(at, 6_MiB) == CUDA_SUCCESS);
}

TEST_CASE("a handle is mapped whole or not at all") {
  const Gpu gpu;
  const CUdeviceptr at = Reserve(8_MiB);
  const auto handle = Create(gpu, 4_MiB);
  REQUIRE(cuMemMap(at, 2_MiB, 2_MiB, handle, 0) == CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE(cuMemMap(at, 2_MiB, 0, handle, 0) == CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE(cuMemMap(at, 8_MiB, 0, handle, 0) == CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE(cuMemMap(at, 4_MiB, 0, handle, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(at + 2_MiB, 4_MiB, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemMap(at + 4_MiB, 4_MiB, 0, handle, 0) == CUDA_SUCCESS);
  const auto access = gpu.ReadWrite();
  REQUIRE(cuMemSetAccess(at, 8_MiB, &access, 1) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32(at, 77, 1) == CUDA_SUCCESS);
  REQUIRE(ReadWords(at + 4_MiB, 1)[0] == 77);
  REQUIRE(cuMemUnmap(at, 8_MiB) == CUDA_SUCCESS);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressFree(at, 8_MiB) == CUDA_SUCCESS);
}

TEST_CASE("unmapping takes all mappings of a range with holes, and cuts none") {
  const Gpu gpu;
  const CUdeviceptr at = Reserve(12_MiB);
  const auto handle = Create(gpu, 4_MiB);
  REQUIRE(cuMemMap(at, 4_MiB, 0, handle, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(at + 8_MiB, 4_MiB, 0, handle, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemUnmap(at, 10_MiB) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemUnmap(at + 2_MiB, 10_MiB) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemUnmap(at, 12_MiB) == CUDA_SUCCESS);
  REQUIRE(cuMemUnmap(at, 12_MiB) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressFree(at, 12_MiB) == CUDA_SUCCESS);
}

TEST_CASE("access is none until it is set, and set access wants every page mapped") {
  const Gpu gpu;
  const CUdeviceptr at = Reserve(4_MiB);
  const auto handle = Create(gpu, 2_MiB);
  const auto access = gpu.ReadWrite();
  REQUIRE(cuMemMap(at, 2_MiB, 0, handle, 0) == CUDA_SUCCESS);
  unsigned long long flags = 9;
  REQUIRE(cuMemGetAccess(&flags, &access.location, at) == CUDA_SUCCESS);
  REQUIRE(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  REQUIRE(cuMemSetAccess(at, 4_MiB, &access, 1) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemSetAccess(at, 1_MiB, &access, 1) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemSetAccess(at, 2_MiB, &access, 1) == CUDA_SUCCESS);
  REQUIRE(cuMemGetAccess(&flags, &access.location, at) == CUDA_SUCCESS);
  REQUIRE(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  REQUIRE(cuMemUnmap(at, 2_MiB) == CUDA_SUCCESS);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressFree(at, 4_MiB) == CUDA_SUCCESS);
}

TEST_CASE("retaining gives the same handle on mapped memory and nothing on native memory") {
  const Gpu gpu;
  const Bytes before = gpu.Free();
  const CUdeviceptr at = Reserve(2_MiB);
  const auto handle = Create(gpu, 2_MiB);
  REQUIRE(cuMemMap(at, 2_MiB, 0, handle, 0) == CUDA_SUCCESS);
  CUmemGenericAllocationHandle again = 0;
  REQUIRE(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at + 100)) == CUDA_SUCCESS);
  REQUIRE(again == handle);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  REQUIRE(cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(gpu.Free() == before - 2_MiB);
  REQUIRE(cuMemUnmap(at, 2_MiB) == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before);
  REQUIRE(cuMemAddressFree(at, 2_MiB) == CUDA_SUCCESS);
  const Buffer native(2_MiB);
  REQUIRE(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(native.at())) ==
          CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("an open descriptor keeps released memory allocated") {
  const Gpu gpu;
  const Bytes before = gpu.Free();
  const auto handle = Create(gpu, 4_MiB);
  int fd = -1;
  REQUIRE(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
          CUDA_SUCCESS);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before - 4_MiB);
  CUmemGenericAllocationHandle imported = 0;
  REQUIRE(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(intptr_t(fd)),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
  close(fd);
  REQUIRE(gpu.Free() == before - 4_MiB);
  REQUIRE(cuMemRelease(imported) == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before);
}

TEST_CASE("creating more than is free fails and takes nothing") {
  const Gpu gpu;
  const Bytes before = gpu.Free();
  CUmemGenericAllocationHandle handle = 0;
  const auto prop = gpu.Exportable();
  REQUIRE(cuMemCreate(&handle, RoundUp(before + 1, 2_MiB), &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(cuMemCreate(&handle, 1_MiB, &prop, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(gpu.Free() == before);
}
