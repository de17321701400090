// Finding functions and naming errors: cuGetProcAddress, cuGetErrorName, cuGetExportTable,
// versions.
#include <cstring>

#include "tests/sim/calls.h"
#include "tests/sim/driver.h"
#include "tests/sim/exports.h"

using namespace parkade::sim;

namespace {

constexpr int kDriverVersion = 13000;

const ErrorName* FindError(CUresult error) {
  for (size_t i = 0; i < kErrorNameCount; ++i)
    if (kErrorNames[i].number == int(error)) return &kErrorNames[i];
  return nullptr;
}

// The newest form that `version` knows; a per-thread one where it exists and is asked for.
CUdriverProcAddressQueryResult Resolve(const char* name, int version, bool per_thread, void** out) {
  const Export* best = nullptr;
  bool known = false;
  for (size_t i = 0; i < kExportCount; ++i) {
    const Export& entry = kExports[i];
    if (strcmp(entry.name, name) != 0 || (entry.per_thread && !per_thread)) continue;
    known = true;
    if (entry.version > version) continue;
    if (best == nullptr || entry.per_thread >= best->per_thread) best = &entry;
  }
  *out = best == nullptr ? nullptr : best->address;
  if (best != nullptr) return CU_GET_PROC_ADDRESS_SUCCESS;
  return known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

// A name that is not found is a success whose pointer is NULL, as cuda.h says; only `status`, which
// callers may leave out, tells why.
CUresult GetProcAddress(const char* symbol, void** pfn, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kFlags =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || pfn == nullptr || version > kDriverVersion || (flags & ~kFlags) != 0 ||
      flags == kFlags)
    return CUDA_ERROR_INVALID_VALUE;
  const auto result =
      Resolve(symbol, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, pfn);
  if (status != nullptr) *status = result;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuInit(unsigned flags) {
  return CallAnyTime<"cuInit">(
      [&] { return flags != 0 ? CUDA_ERROR_INVALID_VALUE : StartDriver(); });
}

CUresult cuDriverGetVersion(int* version) {
  return CallAnyTime<"cuDriverGetVersion">([&] {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *version = kDriverVersion;
    return CUDA_SUCCESS;
  });
}

// The first form has no status and says NOT_FOUND instead, leaving the pointer as it was.
CUresult cuGetProcAddress(const char* symbol, void** pfn, int version, cuuint64_t flags) {
  return CallAnyTime<"cuGetProcAddress">([&] {
    void* found = nullptr;
    const CUresult result = pfn == nullptr
                                ? CUDA_ERROR_INVALID_VALUE
                                : GetProcAddress(symbol, &found, version, flags, nullptr);
    if (result != CUDA_SUCCESS) return result;
    if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
    *pfn = found;
    return CUDA_SUCCESS;
  });
}

CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  return CallAnyTime<"cuGetProcAddress_v2">(
      [&] { return GetProcAddress(symbol, pfn, version, flags, status); });
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  return CallAnyTime<"cuGetErrorName">([&] {
    const ErrorName* found = FindError(error);
    *name = found == nullptr ? nullptr : found->name;
    return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  return CallAnyTime<"cuGetErrorString">([&] {
    const ErrorName* found = FindError(error);
    *text = found == nullptr ? nullptr : found->text;
    return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

// What a driver newer than the headers exports.
extern "C" [[gnu::visibility("default")]] CUresult cuSimulatedFuture() { return CUDA_SUCCESS; }

// The runtime's private tables are what the simulated driver does not have.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  return CallAnyTime<"cuGetExportTable">([&] {
    *table = nullptr;
    return CUDA_ERROR_NOT_FOUND;
  });
}
