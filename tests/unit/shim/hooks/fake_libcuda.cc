// A libcuda.so.1 of a dozen functions: counts calls, resolves names by version as the driver does,
// looks its own functions up, and hands out one inner twin and one name from the future.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include "tests/unit/shim/hooks/fake_libcuda.h"

#include <cuda.h>
#include <dlfcn.h>

#include <cstring>
#include <map>
#include <string>

namespace {

std::map<std::string, int>& Calls() {
  static std::map<std::string, int> calls;
  return calls;
}

CUresult Count(const char* name) {
  ++Calls()[name];
  return CUDA_SUCCESS;
}

void* own_lookup = nullptr;

// The driver's answer for a name is a function that it does not export.
CUresult InnerDeviceGetCount(int* count) {
  *count = 7;
  return Count("inner cuDeviceGetCount");
}

struct Form {
  const char* base;
  int since;
  bool per_thread;
  void* function;
};

template <typename F>
Form MakeForm(const char* base, int since, bool per_thread, F* function) {
  return {base, since, per_thread, reinterpret_cast<void*>(function)};
}

}  // namespace

extern "C" {

int fake_calls(const char* name) { return Calls()[name]; }
void* fake_own_lookup() { return own_lookup; }
void* fake_own_init() { return reinterpret_cast<void*>(&cuInit); }

CUresult cuInit(unsigned int) {
  void* self = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (self != nullptr) {
    own_lookup = dlsym(self, "cuInit");
    dlclose(self);
  }
  return Count("cuInit");
}

CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return Count("cuDeviceGetCount");
}

CUresult cuMemAlloc(CUdeviceptr_v1* out, unsigned int) {
  *out = 32;
  return Count("cuMemAlloc");
}

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t) {
  *out = 0x7000;
  return Count("cuMemAlloc_v2");
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void*, size_t) { return Count("cuMemcpyHtoD_v2"); }
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr, const void*, size_t) {
  return Count("cuMemcpyHtoD_v2_ptds");
}

// Exported, but in no header that the shim has been built from.
CUresult cuNotYetInvented(int) { return Count("cuNotYetInvented"); }
CUresult cuMemAlloc_v9(CUdeviceptr*, size_t, int) { return Count("cuMemAlloc_v9"); }

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status);

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  const Form forms[] = {
      MakeForm("cuInit", 2000, false, &cuInit),
      MakeForm("cuDeviceGetCount", 2000, false, &InnerDeviceGetCount),
      MakeForm("cuMemAlloc", 2000, false, &cuMemAlloc),
      MakeForm("cuMemAlloc", 3020, false, &cuMemAlloc_v2),
      MakeForm("cuMemAlloc", 99000, false, &cuMemAlloc_v9),
      MakeForm("cuMemcpyHtoD", 3020, false, &cuMemcpyHtoD_v2),
      MakeForm("cuMemcpyHtoD", 7000, true, &cuMemcpyHtoD_v2_ptds),
      MakeForm("cuGetProcAddress", 11030, false, &cuGetProcAddress),
      MakeForm("cuGetProcAddress", 12000, false, &cuGetProcAddress_v2),
      MakeForm("cuNotYetInvented", 13000, false, &cuNotYetInvented),
  };
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  void* shared = nullptr;
  void* threads_own = nullptr;
  for (const Form& form : forms) {
    if (strcmp(form.base, symbol) != 0 || form.since > version) continue;
    (form.per_thread ? threads_own : shared) = form.function;
  }
  *function = per_thread && threads_own != nullptr ? threads_own : shared;
  if (status != nullptr) {
    *status =
        *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  // Like the driver: not found is a success for those who can read the status.
  return *function != nullptr || status != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
}
