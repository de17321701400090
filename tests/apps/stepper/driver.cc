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

Address ByGetProc(decltype(&cuGetProcAddress) get, const char* name) {
  Address found = nullptr;
  CUdriverProcAddressQueryResult status;
  // 12000: the runtime asks for the version it was built with; any that has these calls will do.
  if (get(name, &found, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status) != CUDA_SUCCESS)
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
  decltype(&cuGetProcAddress) get = nullptr;
  if (door != Door::kLinked) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return "libcuda.so.1";
  }
  if (door == Door::kGetProc) {
    get = reinterpret_cast<decltype(get)>(dlsym(library, "cuGetProcAddress_v2"));
    if (get == nullptr) return "cuGetProcAddress_v2";
  }
  for (const Entry& e : entries) {
    *e.slot = door == Door::kLinked   ? e.linked
              : door == Door::kDlopen ? dlsym(library, e.symbol)
                                      : ByGetProc(get, e.name);
    if (*e.slot == nullptr) return e.name;
  }
  return nullptr;
}
