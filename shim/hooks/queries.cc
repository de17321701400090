// Handlers of questions about an address: allocations of ours look like cuMemAlloc's, also while
// their bytes are out and the driver knows nothing there.
#include <cstring>

#include "shim/hooks/gate_pass.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/hooked.h"

namespace parkade::shim {
namespace {

template <typename T>
bool Put(void* to, T value) {
  *static_cast<T*>(to) = value;
  return true;
}

// Writes the attribute as native memory would have it. False: the driver has to answer.
bool Answer(const AllocationView& a, CUpointer_attribute attribute, CUdeviceptr ptr, void* to) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Put(to, a.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Put<unsigned>(to, CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return Put(to, ptr);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return Put<unsigned long long>(to, kOurBufferIds | a.number);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return Put(to, false);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Put(to, a.device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return Put(to, a.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return Put<size_t>(to, a.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Put(to, true);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Put<unsigned long long>(to, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Put<unsigned>(to, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Put<CUmemoryPool>(to, nullptr);
    default:
      return false;
  }
}

std::optional<AllocationView> FindOurs(const void* caller, CUdeviceptr ptr) {
  Parts* parts = PartsFor(caller);
  if (parts == nullptr) return std::nullopt;
  const auto ours = parts->heap.Find(ptr);
  return ours ? ours : parts->imports.Find(ptr);
}

// Null: the driver knows all about memory that the application maps itself.
VirtualMemory* MappedBy(const void* caller) {
  Parts* parts = PartsFor(caller);
  return parts == nullptr ? nullptr : &parts->heap.virtual_memory();
}

CUresult Give(const PointerAnswers::Answer& answer, void* to) {
  if (answer.result == CUDA_SUCCESS) memcpy(to, answer.value, answer.width);
  return answer.result;
}

}  // namespace

CUresult OnPointerGetAttribute(Call<decltype(cuPointerGetAttribute)> call, void* to,
                               CUpointer_attribute attribute, CUdeviceptr ptr) {
  const auto ours = FindOurs(call.caller, ptr);
  if (ours && to != nullptr && Answer(*ours, attribute, ptr, to)) return CUDA_SUCCESS;
  const VirtualMemory* mapped = ours || to == nullptr ? nullptr : MappedBy(call.caller);
  if (mapped != nullptr) {
    if (const auto answer = mapped->Ask(ptr, attribute)) return Give(*answer, to);
  }
  return call.real(to, attribute, ptr);
}

CUresult OnPointerGetAttributes(Call<decltype(cuPointerGetAttributes)> call, unsigned count,
                                CUpointer_attribute* attributes, void** to, CUdeviceptr ptr) {
  // The driver first: it checks the arguments, and answers what is not answered here.
  const CUresult r = call.real(count, attributes, to, ptr);
  const auto ours = FindOurs(call.caller, ptr);
  if (r != CUDA_SUCCESS) return r;
  const VirtualMemory* mapped = ours ? nullptr : MappedBy(call.caller);
  for (unsigned i = 0; i < count; ++i) {
    if (ours) Answer(*ours, attributes[i], ptr, to[i]);
    if (mapped == nullptr) continue;
    if (const auto answer = mapped->Ask(ptr, attributes[i])) (void)Give(*answer, to[i]);
  }
  return CUDA_SUCCESS;
}

CUresult OnMemGetAddressRange(Call<decltype(cuMemGetAddressRange_v2)> call, CUdeviceptr* base,
                              size_t* bytes, CUdeviceptr ptr) {
  const auto ours = FindOurs(call.caller, ptr);
  const VirtualMemory* mapped = ours ? nullptr : MappedBy(call.caller);
  if (mapped != nullptr) {
    if (const auto span = mapped->FindMissing(ptr)) {
      if (base != nullptr) *base = span->base;
      if (bytes != nullptr) *bytes = span->bytes;
      return CUDA_SUCCESS;
    }
  }
  if (!ours) return call.real(base, bytes, ptr);
  if (base != nullptr) *base = ours->base;
  if (bytes != nullptr) *bytes = ours->bytes;
  return CUDA_SUCCESS;
}

// Native memory has no handle. One given out here would keep the bytes in HBM through a pause.
CUresult OnMemRetainAllocationHandle(Call<decltype(cuMemRetainAllocationHandle)> call,
                                     CUmemGenericAllocationHandle* handle, void* address) {
  const auto ptr = reinterpret_cast<CUdeviceptr>(address);
  if (FindOurs(call.caller, ptr)) return CUDA_ERROR_INVALID_VALUE;
  VirtualMemory* mapped = handle == nullptr ? nullptr : MappedBy(call.caller);
  if (mapped != nullptr) {
    if (const auto retained = mapped->Retain(ptr)) {
      *handle = *retained;
      return CUDA_SUCCESS;
    }
  }
  const GatePass pass;
  if (!pass) return kNoPass;
  return call.real(handle, address);
}

}  // namespace parkade::shim
