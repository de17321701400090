// Finds the driver's entry points through each door.
#include "tests/apps/stepper/driver.h"

#include <dlfcn.h>

#include <cstdint>

namespace {

using Address = void*;

// One call: the name that cuGetProcAddress knows, the name that the library exports, the address
// that the linker bound, and where to put the answer.
struct Entry {
  const char* name;
  const char* symbol;
  Address linked;
  Address* slot;
};

template <typename F>
Entry Make(const char* name, const char* symbol, F linked, F& slot) {
  return {name, symbol, reinterpret_cast<Address>(linked), reinterpret_cast<Address*>(&slot)};
}

// The look-up in its first form, before CUDA 12 gave it a fifth parameter.
using GetProcV1 = CUresult (*)(const char* name, Address* found, int version, cuuint64_t flags);

// The runtime asks for the version it was built with; any that has these calls will do.
constexpr int kVersionV1 = 11030, kVersionV2 = 12000;

Address ByGetProcV1(Address get, const char* name) {
  Address found = nullptr;
  const auto call = reinterpret_cast<GetProcV1>(get);
  if (call(name, &found, kVersionV1, CU_GET_PROC_ADDRESS_DEFAULT) != CUDA_SUCCESS) return nullptr;
  return found;
}

Address ByGetProcV2(Address get, const char* name) {
  Address found = nullptr;
  CUdriverProcAddressQueryResult status;
  const auto call = reinterpret_cast<decltype(&cuGetProcAddress)>(get);
  if (call(name, &found, kVersionV2, CU_GET_PROC_ADDRESS_DEFAULT, &status) != CUDA_SUCCESS)
    return nullptr;
  return status == CU_GET_PROC_ADDRESS_SUCCESS ? found : nullptr;
}

}  // namespace

const char* OpenDriver(Door door, Driver* d) {
  const Entry entries[] = {
      Make("cuInit", "cuInit", &cuInit, d->init),
      Make("cuDeviceGet", "cuDeviceGet", &cuDeviceGet, d->device_get),
      Make("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain,
           d->primary_ctx_retain),
      Make("cuCtxSetCurrent", "cuCtxSetCurrent", &cuCtxSetCurrent, d->ctx_set_current),
      Make("cuMemAlloc", "cuMemAlloc_v2", &cuMemAlloc, d->mem_alloc),
      Make("cuMemFree", "cuMemFree_v2", &cuMemFree, d->mem_free),
      Make("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", &cuMemcpyHtoDAsync, d->copy_in),
      Make("cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", &cuMemcpyDtoHAsync, d->copy_out),
      Make("cuMemsetD8Async", "cuMemsetD8Async", &cuMemsetD8Async, d->set_bytes),
      Make("cuStreamCreate", "cuStreamCreate", &cuStreamCreate, d->stream_create),
      Make("cuStreamSynchronize", "cuStreamSynchronize", &cuStreamSynchronize,
           d->stream_synchronize),
      Make("cuModuleLoadData", "cuModuleLoadData", &cuModuleLoadData, d->module_load),
      Make("cuModuleGetFunction", "cuModuleGetFunction", &cuModuleGetFunction,
           d->module_get_function),
      Make("cuLaunchKernel", "cuLaunchKernel", &cuLaunchKernel, d->launch),
      Make("cuGetErrorName", "cuGetErrorName", &cuGetErrorName, d->error_name),
  };

  void* library = nullptr;
  Address get = nullptr;
  if (door != Door::kLinked) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return "libcuda.so.1";
  }
  if (door == Door::kGetProcV1 || door == Door::kGetProc) {
    const char* name = door == Door::kGetProc ? "cuGetProcAddress_v2" : "cuGetProcAddress";
    get = dlsym(library, name);
    if (get == nullptr) return name;
  }
  for (const Entry& e : entries) {
    *e.slot = door == Door::kLinked      ? e.linked
              : door == Door::kDlopen    ? dlsym(library, e.symbol)
              : door == Door::kGetProcV1 ? ByGetProcV1(get, e.name)
                                         : ByGetProcV2(get, e.name);
    if (*e.slot == nullptr) return e.name;
  }
  return nullptr;
}
