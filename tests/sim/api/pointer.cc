// cuPointerGetAttribute(s) and cuMemGetAddressRange: what an address is. Native memory and memory
// of cuMemCreate differ where they were seen to differ on a card (README.md).
#include <cstring>

#include "tests/sim/driver.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

using Found = AddressSpace::Found;

bool OnHost(const Found& found) {
  return found.range.kind == RangeKind::kPinned || found.range.kind == RangeKind::kRegistered;
}

const Physical* MemoryOf(const Found& found) {
  return found.mapping ? found.mapping->memory.get() : found.range.memory.get();
}

// Memory of cuMemCreate belongs to no context.
CUcontext ContextOf(const Found& found) { return found.mapping ? nullptr : found.range.context; }

int GpuOf(const Found& found) {
  return found.mapping ? found.mapping->memory->gpu() : found.range.gpu;
}

template <typename T>
CUresult Put(void* data, T value) {
  memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult Attribute(CUpointer_attribute attribute, const Found& found, Address at, void* data) {
  const bool host = OnHost(found);
  const bool managed = found.range.kind == RangeKind::kManaged;
  const Physical* memory = MemoryOf(found);
  const bool unmapped = !host && memory == nullptr;
  const bool vmm = found.mapping.has_value();
  const bool native = found.range.kind == RangeKind::kNative;
  if (unmapped && attribute != CU_POINTER_ATTRIBUTE_RANGE_START_ADDR &&
      attribute != CU_POINTER_ATTRIBUTE_RANGE_SIZE && attribute != CU_POINTER_ATTRIBUTE_MAPPED)
    return CUDA_ERROR_INVALID_VALUE;
  switch (int(attribute)) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Put(data, ContextOf(found));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Put(data, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return Put(data, CUdeviceptr(at));
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return host || managed ? Put(data, at) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return host ? CUDA_ERROR_INVALID_VALUE : Put(data, CUDA_POINTER_ATTRIBUTE_P2P_TOKENS{1, 2});
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return Put<unsigned>(data, managed || found.range.sync_memops);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return Put<unsigned long long>(data, vmm ? found.mapping->id : found.range.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return Put<unsigned>(data, managed);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Put(data, GpuOf(found));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Put<unsigned>(data, native);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Put(data, found.range.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Put<size_t>(data, found.range.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Put<unsigned>(data, !unmapped);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Put<unsigned long long>(data, vmm ? memory->prop.requestedHandleTypes : 0);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return Put<unsigned>(data, vmm ? memory->prop.allocFlags.gpuDirectRDMACapable : native);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Put<unsigned>(data, vmm ? found.mapping->access[size_t(GpuOf(found))]
                                     : unsigned(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Put(data, found.range.pool);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return Put<size_t>(data,
                         vmm ? found.mapping->bytes : RoundUp(found.range.bytes, kGranularity));
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return Put(data, vmm ? found.mapping_base : found.range.base);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return Put<unsigned long long>(data, memory != nullptr ? memory->inode() : found.range.id);
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return Put<unsigned>(data, native);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// What cuPointerGetAttributes writes for a value that there is none of.
Bytes SizeOf(CUpointer_attribute attribute) {
  switch (int(attribute)) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return 8;
    default:
      return 4;
  }
}

}  // namespace

// Attributes are answered without a context too.
CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr at) {
  return Call<"cuPointerGetAttribute">([&] {
    const auto found = Sim().addresses.Find(at);
    if (data == nullptr || !found) return CUDA_ERROR_INVALID_VALUE;
    return Attribute(attribute, *found, at, data);
  });
}

namespace {

// What there is to say of an address that is no memory.
void PutNothing(CUpointer_attribute attribute, CUdeviceptr at, void* data) {
  if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
      attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
    return;
  memset(data, 0, SizeOf(attribute));
  if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER) Put(data, at);
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) Put(data, CU_DEVICE_INVALID);
}

}  // namespace

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr at) {
  return Call<"cuPointerGetAttributes">([&] {
    if (count == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto found = Sim().addresses.Find(at);
    for (unsigned i = 0; i < count; ++i) {
      // What stands before an attribute that is none is written.
      if (attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT ||
          attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
        return CUDA_ERROR_INVALID_VALUE;
      if (!found) {
        PutNothing(attributes[i], at, data[i]);
      } else if (Attribute(attributes[i], *found, at, data[i]) != CUDA_SUCCESS) {
        memset(data[i], 0, SizeOf(attributes[i]));
      }
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr at) {
  return Call<"cuPointerSetAttribute">([&] {
    const auto found = Sim().addresses.Find(at);
    if (value == nullptr || !found) return CUDA_ERROR_INVALID_VALUE;
    if (found->range.kind == RangeKind::kReserved) return CUDA_ERROR_NOT_SUPPORTED;
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
    Sim().addresses.SetSyncMemops(at, *static_cast<const unsigned*>(value) != 0);
    return CUDA_SUCCESS;
  });
}

// Of memory mapped by cuMemMap: the one handle's mapping.
CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr at) {
  if (base != nullptr) *base = 0;
  if (bytes != nullptr) *bytes = 0;
  return CallIn<"cuMemGetAddressRange_v2">([&](Context&) {
    if (base == nullptr && bytes == nullptr) return CUDA_SUCCESS;
    const auto found = Sim().addresses.Find(at);
    if (!found || (!OnHost(*found) && MemoryOf(*found) == nullptr)) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = found->mapping ? found->mapping_base : found->range.base;
    if (bytes != nullptr) *bytes = found->mapping ? found->mapping->bytes : found->range.bytes;
    return CUDA_SUCCESS;
  });
}
