// Handlers of questions about an address: allocations of ours look like cuMemAlloc's, also while
// their bytes are out and the driver knows nothing there.
#include <cstring>

#include "shim/cuda/scoped_context.h"
#include "shim/hooks/gate_pass.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/hooked.h"
#include "shim/hooks/native_answers.h"

namespace parkade::shim {
namespace {

template <typename T>
bool Put(void* to, T value) {
  *static_cast<T*>(to) = value;
  return true;
}

std::optional<DeviceMemory::Device> DeviceOf(Parts& parts, const AllocationView& a) {
  DeviceMemory::Device device;
  if (parts.heap.memory().Describe(a.device, &device) != CUDA_SUCCESS) return std::nullopt;
  return device;
}

// Writes the attribute as native memory would have it. False: the driver has to answer.
bool Answer(Parts& parts, const AllocationView& a, CUpointer_attribute attribute, CUdeviceptr ptr,
            void* to) {
  if (to == nullptr) return false;
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
      return Put<unsigned>(to, false);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return Put<unsigned>(to, a.sync_memops);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Put<unsigned>(to, true);  // by tokens (shim/ipc)
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: {
      const auto device = DeviceOf(parts, a);
      return device && Put<unsigned>(to, device->rdma_memory);
    }
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: {
      // Where there is no such engine native memory says yes (580). Where there is one, the heap's
      // handles are not made for it.
      const auto device = DeviceOf(parts, a);
      return device && Put<unsigned>(to, !device->decompressor);
    }
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Put(to, a.device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Put(to, a.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Put<size_t>(to, a.bytes);
    // Whole pages of the GPU, that is what the driver maps.
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return Put(to, a.base / kGpuPage * kGpuPage);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return Put<size_t>(to, RoundUp(a.base + a.bytes, kGpuPage) - a.base / kGpuPage * kGpuPage);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Put<unsigned>(to, true);
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

bool IsKnown(CUpointer_attribute attribute) {
  return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT &&
         attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE;
}

// The place of an address for a call from outside; kOther where there are no parts.
Place Look(Parts* parts, CUdeviceptr ptr) {
  return parts == nullptr ? Place{} : PlaceOf(*parts, ptr);
}

// What to ask the driver of, where it is to know host memory alone.
void* HostAddress(const void* caller, void* host) {
  const auto ptr = reinterpret_cast<CUdeviceptr>(host);
  const bool other = Look(PartsFor(caller), ptr).kind == Place::Kind::kOther;
  return other ? host : reinterpret_cast<void*>(kNowhere);
}

// Memory that the application maps itself: the driver knows all about it, but while it is out. Null
// where there is none to speak of.
VirtualMemory* MappedBy(Parts* parts) {
  return parts == nullptr ? nullptr : &parts->heap.virtual_memory();
}

CUresult Give(const PointerAnswers::Answer& answer, void* to) {
  if (answer.result == CUDA_SUCCESS) memcpy(to, answer.value, answer.width);
  return answer.result;
}

// All memory operations of the context wait from now on: the driver does not offer that for single
// addresses of virtual memory (580), and what waits too often is right as well.
CUresult SynchronizeMemops(const Driver& driver, CUcontext context) {
  if (driver.ctx_get_flags == nullptr || driver.ctx_set_flags == nullptr) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  ScopedContext current(driver, context);
  if (current.status() != CUDA_SUCCESS) return current.status();
  unsigned flags = 0;
  if (auto r = driver.ctx_get_flags(&flags); r != CUDA_SUCCESS) return r;
  if ((flags & CU_CTX_SYNC_MEMOPS) != 0) return CUDA_SUCCESS;
  return driver.ctx_set_flags(flags | CU_CTX_SYNC_MEMOPS);
}

}  // namespace

CUresult OnPointerGetAttribute(Call<decltype(cuPointerGetAttribute)> call, void* to,
                               CUpointer_attribute attribute, CUdeviceptr ptr) {
  Parts* parts = PartsFor(call.caller);
  const Place place = Look(parts, ptr);
  if (place.kind == Place::Kind::kOther) {
    const VirtualMemory* mapped = to == nullptr ? nullptr : MappedBy(parts);
    if (mapped != nullptr) {
      if (const auto answer = mapped->Ask(ptr, attribute)) return Give(*answer, to);
    }
    return call.real(to, attribute, ptr);
  }
  if (place.kind == Place::Kind::kNothing) return call.real(to, attribute, kNowhere);
  uint64_t room[4];  // for the largest attribute
  auto ask = [&] { return call.real(room, attribute, kNowhere); };
  if (auto refusal = RefusalOfThread(*parts, ask)) return *refusal;
  if (Answer(*parts, place.allocation, attribute, ptr, to)) return CUDA_SUCCESS;
  return call.real(to, attribute, ptr);
}

CUresult OnPointerGetAttributes(Call<decltype(cuPointerGetAttributes)> call, unsigned count,
                                CUpointer_attribute* attributes, void** to, CUdeviceptr ptr) {
  Parts* parts = PartsFor(call.caller);
  const Place place = Look(parts, ptr);
  const bool nothing = place.kind == Place::Kind::kNothing;
  // The driver first: it checks the arguments, and answers what is not answered here.
  const CUresult r = call.real(count, attributes, to, nothing ? kNowhere : ptr);
  if (place.kind == Place::Kind::kOther) {
    const VirtualMemory* mapped = r == CUDA_SUCCESS ? MappedBy(parts) : nullptr;
    for (unsigned i = 0; mapped != nullptr && i < count; ++i) {
      if (const auto answer = mapped->Ask(ptr, attributes[i])) (void)Give(*answer, to[i]);
    }
    return r;
  }
  if (attributes == nullptr || to == nullptr) return r;
  for (unsigned i = 0; i < count; ++i) {
    // What stands before an attribute that is none has been written.
    if (r != CUDA_SUCCESS && !IsKnown(attributes[i])) break;
    if (to[i] == nullptr) continue;
    if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER) {
      // An address of nobody's may be the host's; while the memory is out it is nobody's.
      Put(to[i], nothing ? ptr : CUdeviceptr(0));
    } else if (!nothing) {
      Answer(*parts, place.allocation, attributes[i], ptr, to[i]);
    }
  }
  return r;
}

CUresult OnPointerSetAttribute(Call<decltype(cuPointerSetAttribute)> call, const void* value,
                               CUpointer_attribute attribute, CUdeviceptr ptr) {
  const GatePass pass;
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  const Place place = Look(parts, ptr);
  if (place.kind == Place::Kind::kOther) return call.real(value, attribute, ptr);
  // What native memory refuses is refused at any address.
  const bool ours = place.kind == Place::Kind::kOurs &&
                    attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && value != nullptr;
  if (!ours) return call.real(value, attribute, kNowhere);
  auto ask = [&] { return call.real(value, attribute, kNowhere); };
  if (auto refusal = RefusalOfThread(*parts, ask)) return *refusal;
  InShim guard;
  const bool on = *static_cast<const unsigned*>(value) != 0;
  const AllocationView& a = place.allocation;
  if (on) {
    const CUresult r = SynchronizeMemops(parts->driver, a.context);
    if (r != CUDA_SUCCESS) return r;
  }
  parts->heap.SetSyncMemops(a.base, a.number, on);
  return CUDA_SUCCESS;
}

CUresult OnMemGetAddressRange(Call<decltype(cuMemGetAddressRange_v2)> call, CUdeviceptr* base,
                              size_t* bytes, CUdeviceptr ptr) {
  Parts* parts = PartsFor(call.caller);
  const Place place = Look(parts, ptr);
  if (place.kind == Place::Kind::kOther) {
    const VirtualMemory* mapped = MappedBy(parts);
    const auto span = mapped == nullptr ? std::nullopt : mapped->FindMissing(ptr);
    if (!span) return call.real(base, bytes, ptr);
    if (base != nullptr) *base = span->base;
    if (bytes != nullptr) *bytes = span->bytes;
    return CUDA_SUCCESS;
  }
  auto ask = [&] { return call.real(base, bytes, kNowhere); };
  if (place.kind == Place::Kind::kNothing) return ask();
  if (auto refusal = RefusalOfThread(*parts, ask)) return *refusal;
  if (base != nullptr) *base = place.allocation.base;
  if (bytes != nullptr) *bytes = place.allocation.bytes;
  return CUDA_SUCCESS;
}

CUresult OnMemHostGetDevicePointer(Call<decltype(cuMemHostGetDevicePointer_v2)> call,
                                   CUdeviceptr* out, void* host, unsigned flags) {
  const GatePass pass;
  if (!pass) return kNoPass;
  return call.real(out, HostAddress(call.caller, host), flags);
}

CUresult OnMemHostGetFlags(Call<decltype(cuMemHostGetFlags)> call, unsigned* flags, void* host) {
  return call.real(flags, HostAddress(call.caller, host));
}

// Native memory has no handle. One given out here would keep the bytes in HBM through a pause.
CUresult OnMemRetainAllocationHandle(Call<decltype(cuMemRetainAllocationHandle)> call,
                                     CUmemGenericAllocationHandle* handle, void* address) {
  Parts* parts = PartsFor(call.caller);
  const auto ptr = reinterpret_cast<CUdeviceptr>(address);
  if (Look(parts, ptr).kind != Place::Kind::kOther) return CUDA_ERROR_INVALID_VALUE;
  VirtualMemory* mapped = handle == nullptr ? nullptr : MappedBy(parts);
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
