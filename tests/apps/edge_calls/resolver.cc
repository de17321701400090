// cuGetProcAddress of memory functions: versions, flags, names that are none.
#include <dlfcn.h>

#include "tests/apps/edge_calls/case.h"

// Still exported; the header has replaced it by the form with a status.
#undef cuGetProcAddress
extern "C" CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** function, int version,
                                             cuuint64_t flags);

namespace {

void* Untouched() { return reinterpret_cast<void*>(kUntouched); }

struct Found {
  CUresult result;
  void* function;
  CUdriverProcAddressQueryResult status;
};

Found Find(const char* name, int version, cuuint64_t flags) {
  Found found = {CUDA_SUCCESS, Untouched(), static_cast<CUdriverProcAddressQueryResult>(77)};
  found.result = cuGetProcAddress_v2(name, &found.function, version, flags, &found.status);
  return found;
}

void Ask(Answer& a, const char* name, int version, cuuint64_t flags) {
  const Found found = Find(name, version, flags);
  a.Code(found.result).Note("status=%d", static_cast<int>(found.status));
  a.Note("function=%s", found.function == nullptr ? "null" : Touched(uint64_t(found.function)));
}

void* FunctionOf(const char* name, int version, cuuint64_t flags) {
  return Find(name, version, flags).function;
}

void* Exported(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
  return dlsym(driver, name);
}

constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
constexpr cuuint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;

const Case kCases[] = {
    {"resolve_memory_functions",
     [](Answer& a) {
       for (const char* name : {"cuMemAlloc", "cuMemFree", "cuMemAllocPitch", "cuMemGetInfo",
                                "cuMemGetAddressRange", "cuPointerGetAttribute", "cuMemcpyHtoD",
                                "cuMemsetD8", "cuIpcOpenMemHandle", "cuMemAllocAsync"}) {
         Ask(a, name, 12000, 0);
       }
     }},
    {"resolve_versions_are_the_exports",
     [](Answer& a) {
       const void* old_form = Exported("cuMemAlloc");
       const void* new_form = Exported("cuMemAlloc_v2");
       a.Note("2000=%d", FunctionOf("cuMemAlloc", 2000, 0) == old_form);
       a.Note("3010=%d", FunctionOf("cuMemAlloc", 3010, 0) == old_form);
       for (int version : {3020, 4000, 11030, 12000, 13000}) {
         a.Note("%d=%d", version, FunctionOf("cuMemAlloc", version, 0) == new_form);
       }
     }},
    {"resolve_linked_is_the_export",
     [](Answer& a) {
       a.Note("alloc=%d", Exported("cuMemAlloc_v2") == reinterpret_cast<void*>(&cuMemAlloc));
       a.Note("free=%d", FunctionOf("cuMemFree", 12000, 0) == reinterpret_cast<void*>(&cuMemFree));
     }},
    {"resolve_streams",
     [](Answer& a) {
       void* const plain = FunctionOf("cuMemcpyHtoD", 12000, 0);
       a.Note("legacy=%d", FunctionOf("cuMemcpyHtoD", 12000, kLegacy) == plain);
       a.Note("own=%d",
              FunctionOf("cuMemcpyHtoD", 12000, kPerThread) == Exported("cuMemcpyHtoD_v2_ptds"));
       a.Note("alloc_own=%d",
              FunctionOf("cuMemAlloc", 12000, kPerThread) == Exported("cuMemAlloc_v2"));
       a.Note("async_own=%d",
              FunctionOf("cuMemFreeAsync", 12000, kPerThread) == Exported("cuMemFreeAsync_ptsz"));
     }},
    {"resolve_too_old", [](Answer& a) { Ask(a, "cuMemCreate", 10000, 0); }},
    {"resolve_version_zero", [](Answer& a) { Ask(a, "cuMemAlloc", 0, 0); }},
    {"resolve_version_negative", [](Answer& a) { Ask(a, "cuMemAlloc", -1, 0); }},
    {"resolve_future", [](Answer& a) { Ask(a, "cuMemAlloc", 99000, 0); }},
    {"resolve_unknown", [](Answer& a) { Ask(a, "cuMemAllocFoo", 12000, 0); }},
    {"resolve_versioned_name", [](Answer& a) { Ask(a, "cuMemAlloc_v2", 12000, 0); }},
    {"resolve_empty_name", [](Answer& a) { Ask(a, "", 12000, 0); }},
    {"resolve_null_name", [](Answer& a) { Ask(a, nullptr, 12000, 0); }},
    {"resolve_null_out",
     [](Answer& a) {
       CUdriverProcAddressQueryResult status = static_cast<CUdriverProcAddressQueryResult>(77);
       a.Code(cuGetProcAddress_v2("cuMemAlloc", nullptr, 12000, 0, &status));
       a.Note("status=%d", static_cast<int>(status));
     }},
    {"resolve_no_status",
     [](Answer& a) {
       void* found = Untouched();
       a.Code(cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, nullptr));
       a.Note("same=%d", found == Exported("cuMemAlloc_v2"));
       a.Code(cuGetProcAddress_v2("cuMemAllocFoo", &found, 12000, 0, nullptr));
       a.Note("function=%s", found == nullptr ? "null" : "set");
     }},
    {"resolve_bad_flags",
     [](Answer& a) {
       Ask(a, "cuMemAlloc", 12000, 8);
       Ask(a, "cuMemAlloc", 12000, kLegacy | kPerThread);
     }},
    {"resolve_first_form",
     [](Answer& a) {
       void* found = Untouched();
       a.Code(cuGetProcAddress("cuMemAlloc", &found, 12000, 0));
       a.Note("same=%d", found == Exported("cuMemAlloc_v2"));
       found = Untouched();
       a.Code(cuGetProcAddress("cuMemAllocFoo", &found, 12000, 0));
       a.Note("function=%s", found == nullptr ? "null" : Touched(uint64_t(found)));
     }},
    {"resolve_itself",
     [](Answer& a) {
       a.Note("12000=%d",
              FunctionOf("cuGetProcAddress", 12000, 0) == Exported("cuGetProcAddress_v2"));
       a.Note("11030=%d", FunctionOf("cuGetProcAddress", 11030, 0) == Exported("cuGetProcAddress"));
     }},
    {"resolve_by_dlsym",
     [](Answer& a) {
       a.Note("known=%d unknown=%d", Exported("cuMemFree_v2") != nullptr,
              Exported("cuMemFreeFoo") != nullptr);
     }},
};

}  // namespace

std::span<const Case> ResolverCases() { return kCases; }
