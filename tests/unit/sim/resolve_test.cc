// cuGetProcAddress and the exported names.
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "tests/unit/sim/gpu.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

void* Exported(const char* name) { return dlsym(RTLD_DEFAULT, name); }

void* Resolve(const char* name, int version, cuuint64_t flags,
              CUdriverProcAddressQueryResult expected = CU_GET_PROC_ADDRESS_SUCCESS) {
  void* address = Exported("cuInit");
  CUdriverProcAddressQueryResult status;
  REQUIRE(cuGetProcAddress(name, &address, version, flags, &status) == CUDA_SUCCESS);
  REQUIRE(status == expected);
  return address;
}

}  // namespace

TEST_CASE("the resolver gives exported addresses, by version and default stream") {
  REQUIRE(Resolve("cuMemAlloc", 13000, 0) == Exported("cuMemAlloc_v2"));
  REQUIRE(Resolve("cuMemAlloc", 2000, 0) == Exported("cuMemAlloc"));
  REQUIRE(Resolve("cuCtxSynchronize", 12000, 0) == Exported("cuCtxSynchronize"));
  REQUIRE(Resolve("cuCtxSynchronize", 13000, 0) == Exported("cuCtxSynchronize_v2"));
  REQUIRE(Resolve("cuStreamBeginCapture", 10000, 0) == Exported("cuStreamBeginCapture"));
  REQUIRE(Resolve("cuStreamBeginCapture", 10010, 0) == Exported("cuStreamBeginCapture_v2"));
  REQUIRE(Resolve("cuGetProcAddress", 12000, 0) == Exported("cuGetProcAddress_v2"));
  const cuuint64_t own = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  REQUIRE(Resolve("cuLaunchKernel", 13000, own) == Exported("cuLaunchKernel_ptsz"));
  REQUIRE(Resolve("cuMemcpyHtoD", 13000, own) == Exported("cuMemcpyHtoD_v2_ptds"));
  REQUIRE(Resolve("cuMemAlloc", 13000, own) == Exported("cuMemAlloc_v2"));
}

TEST_CASE("what is not found is a success without an address") {
  REQUIRE(Resolve("", 0, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) == nullptr);
  REQUIRE(Resolve("cuNoSuchThing", 13000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) == nullptr);
  REQUIRE(Resolve("cuMemCreate", 10000, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT) == nullptr);
  void* address = nullptr;
  REQUIRE(cuGetProcAddress("cuInit", &address, 99000, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuGetProcAddress("cuInit", &address, 13000, 0, nullptr) == CUDA_SUCCESS);
  REQUIRE(address == Exported("cuInit"));
}

TEST_CASE("names without a simulation exist and say that they are not supported") {
  const Gpu gpu;
  const auto create = reinterpret_cast<PFN_cuArrayCreate_v3020>(Resolve("cuArrayCreate", 13000, 0));
  CUarray array = nullptr;
  CUDA_ARRAY_DESCRIPTOR descriptor = {};
  REQUIRE(create(&array, &descriptor) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("errors have names") {
  const char* name = nullptr;
  REQUIRE(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name) == CUDA_SUCCESS);
  REQUIRE(name == std::string("CUDA_ERROR_ILLEGAL_ADDRESS"));
  REQUIRE(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &name) == CUDA_SUCCESS);
  REQUIRE(name == std::string("out of memory"));
  REQUIRE(cuGetErrorName(CUresult(12345), &name) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(name == nullptr);
}

TEST_CASE("the runtime's private tables are not there") {
  const CUuuid id = {};
  const void* table = &id;
  REQUIRE(cuGetExportTable(&table, &id) == CUDA_ERROR_NOT_FOUND);
}
