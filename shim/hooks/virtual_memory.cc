// Handlers of virtual memory management: what the application makes and maps itself can be moved
// (shim/heap/virtual_memory.h), all else stays native.
#include <vector>

#include "shim/heap/saver_settings.h"
#include "shim/hooks/counts.h"
#include "shim/hooks/foreign_memory.h"
#include "shim/hooks/gate_pass.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/hooked.h"
#include "shim/hooks/native_answers.h"
#include "shim/hooks/tags.h"
#include "shim/hooks/want_of_memory.h"

namespace parkade::shim {
namespace {

using Handle = CUmemGenericAllocationHandle;

constexpr char kExported[] =
    "memory that was exported as a shareable handle is held: it stays in HBM";
constexpr char kMulticast[] = "memory that is bound to a multicast object is held: it stays in HBM";
constexpr char kSparse[] = "memory that is mapped into a sparse array is held: it stays in HBM";

// Counts a native handle's memory where it is mapped: a communication library's, or what another
// process has exported. Memory of hosts is no GPU's.
void NoteNative(const void* caller, Parts& parts, CUdeviceptr at, size_t bytes, Handle handle) {
  CUmemAllocationProp prop{};
  if (parts.driver.mem_get_allocation_properties(&prop, handle) != CUDA_SUCCESS) return;
  if (prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return;
  const auto kind = KeepsNativeMemory(caller, CountLoads()) ? wire::ForeignKind::kCommunication
                                                            : wire::ForeignKind::kNative;
  parts.foreign.AddOn(prop.location.id, kind, at, bytes);
}

// Native memory has no mappings that an application could change; the heap's are not to be touched.
bool IsOfTheHeap(const Parts& parts, CUdeviceptr at, size_t bytes) {
  return parts.heap.Owns(at, bytes) || parts.imports.Owns(at);
}

// What the driver is to be given in the place of a handle.
CUresult ToDriver(const Parts& parts, Handle handle, Handle* physical) {
  *physical = handle;
  if (!VirtualMemory::IsLogical(handle)) return CUDA_SUCCESS;
  return parts.heap.virtual_memory().Resolve(handle, physical);
}

CUresult Create(const Call<decltype(cuMemCreate)>& call, Parts* parts, Handle* handle, size_t bytes,
                const CUmemAllocationProp* prop, unsigned long long flags) {
  // In torch_memory_saver's place only what a region allocates moves.
  if (parts == nullptr || handle == nullptr || !VirtualMemory::CanAdopt(prop) ||
      SaverSettings::InForce()) {
    return call.real(handle, bytes, prop, flags);
  }
  InShim guard;
  if (KeepsNativeMemory(call.caller, CountLoads())) {
    AdviseOnNccl(parts->ledger);
    return call.real(handle, bytes, prop, flags);
  }
  VirtualMemory& memory = parts->heap.virtual_memory();
  const std::string_view tag = CurrentTag(parts->own_tag);
  const CUresult r = memory.Create(handle, bytes, *prop, flags, tag);
  if (r != CUDA_ERROR_OUT_OF_MEMORY || parts->heap.Trim() == 0) return r;
  return memory.Create(handle, bytes, *prop, flags, tag);
}

// Whether what was asked for is memory of the device that the driver's free memory is told of here.
bool IsOfCurrentDevice(const Parts* parts, const CUmemAllocationProp* prop) {
  CUdevice device = 0;
  return parts != nullptr && prop != nullptr &&
         prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         parts->driver.ctx_get_device(&device) == CUDA_SUCCESS && device == prop->location.id;
}

}  // namespace

CUresult OnMemCreate(Call<decltype(cuMemCreate)> call, Handle* handle, size_t bytes,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  NoteCurrentContext();
  Parts* parts = PartsFor(call.caller);
  const auto attempt = [&] {
    const GatePass pass(Gate::Call::kAllocation);
    if (!pass) return kNoPass;
    return Create(call, parts, handle, bytes, prop, flags);
  };
  const CUresult r = attempt();
  if (r != CUDA_ERROR_OUT_OF_MEMORY || !IsOfCurrentDevice(parts, prop)) return r;
  return WaitForMemory(*parts, bytes, attempt);
}

CUresult OnMemRelease(Call<decltype(cuMemRelease)> call, Handle handle) {
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr || !VirtualMemory::IsLogical(handle)) return call.real(handle);
  InShim guard;
  return parts->heap.virtual_memory().Release(handle);
}

CUresult OnMemMap(Call<decltype(cuMemMap)> call, CUdeviceptr at, size_t bytes, size_t offset,
                  Handle handle, unsigned long long flags) {
  const GatePass pass(Gate::Call::kAllocation);
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr) return call.real(at, bytes, offset, handle, flags);
  if (IsOfTheHeap(*parts, at, bytes)) return CUDA_ERROR_INVALID_VALUE;
  InShim guard;
  const CUresult r = parts->heap.virtual_memory().Map(at, bytes, offset, handle, flags);
  if (r == CUDA_SUCCESS && !VirtualMemory::IsLogical(handle)) {
    NoteNative(call.caller, *parts, at, bytes, handle);
  }
  return r;
}

CUresult OnMemUnmap(Call<decltype(cuMemUnmap)> call, CUdeviceptr at, size_t bytes) {
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr) return call.real(at, bytes);
  if (IsOfTheHeap(*parts, at, bytes)) return CUDA_ERROR_INVALID_VALUE;
  InShim guard;
  const CUresult r = parts->heap.virtual_memory().Unmap(at, bytes);
  if (r == CUDA_SUCCESS) parts->foreign.RemoveIn(at, bytes);
  return r;
}

CUresult OnMemSetAccess(Call<decltype(cuMemSetAccess)> call, CUdeviceptr at, size_t bytes,
                        const CUmemAccessDesc* access, size_t count) {
  const GatePass pass(Gate::Call::kAllocation);
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr) return call.real(at, bytes, access, count);
  if (IsOfTheHeap(*parts, at, bytes)) return CUDA_ERROR_INVALID_VALUE;
  InShim guard;
  return parts->heap.virtual_memory().SetAccess(at, bytes, access, count);
}

CUresult OnMemAddressFree(Call<decltype(cuMemAddressFree)> call, CUdeviceptr at, size_t bytes) {
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr) return call.real(at, bytes);
  if (IsOfTheHeap(*parts, at, bytes)) return CUDA_ERROR_INVALID_VALUE;
  InShim guard;
  return parts->heap.virtual_memory().FreeAddresses(at, bytes);
}

CUresult OnMemGetAccess(Call<decltype(cuMemGetAccess)> call, unsigned long long* flags,
                        const CUmemLocation* location, CUdeviceptr at) {
  Parts* parts = PartsFor(call.caller);
  int devices = 0;
  if (parts == nullptr || flags == nullptr || location == nullptr ||
      parts->driver.device_get_count(&devices) != CUDA_SUCCESS) {
    return call.real(flags, location, at);
  }
  const bool known =
      location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 && location->id < devices;
  const Place place = PlaceOf(*parts, at);
  if (place.kind == Place::Kind::kNothing || (place.kind == Place::Kind::kOurs && !known)) {
    return call.real(flags, location, kNowhere);
  }
  if (place.kind == Place::Kind::kOurs) {
    *flags = 0;  // as for all memory that was not mapped by cuMemMap (580)
    return CUDA_SUCCESS;
  }
  const auto missing = parts->heap.virtual_memory().MissingAccess(at, *location);
  if (!missing) return call.real(flags, location, at);
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  *flags = *missing;
  return CUDA_SUCCESS;
}

CUresult OnMemGetAllocationProperties(Call<decltype(cuMemGetAllocationPropertiesFromHandle)> call,
                                      CUmemAllocationProp* prop, Handle handle) {
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr || !VirtualMemory::IsLogical(handle)) return call.real(prop, handle);
  return parts->heap.virtual_memory().GetProperties(handle, prop);
}

CUresult OnMemExport(Call<decltype(cuMemExportToShareableHandle)> call, void* out, Handle handle,
                     CUmemAllocationHandleType type, unsigned long long flags) {
  const GatePass pass;
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr) return call.real(out, handle, type, flags);
  InShim guard;
  Handle physical = 0;
  if (auto r = ToDriver(*parts, handle, &physical); r != CUDA_SUCCESS) return r;
  const CUresult r = call.real(out, physical, type, flags);
  if (r == CUDA_SUCCESS) parts->heap.virtual_memory().Hold(handle, kExported);
  return r;
}

CUresult OnMemMapArrayAsync(Call<decltype(cuMemMapArrayAsync)> call, CUarrayMapInfo* list,
                            unsigned count, CUstream stream) {
  const GatePass pass;
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr || list == nullptr) return call.real(list, count, stream);
  InShim guard;
  std::vector<CUarrayMapInfo> given(list, list + count);
  for (CUarrayMapInfo& info : given) {
    Handle& handle = info.memHandle.memHandle;
    if (auto r = ToDriver(*parts, handle, &handle); r != CUDA_SUCCESS) return r;
  }
  const CUresult r = call.real(given.data(), count, stream);
  if (r != CUDA_SUCCESS) return r;
  CountTrackedCall(Entry::cuMemMapArrayAsync);
  for (unsigned i = 0; i < count; ++i) {
    parts->heap.virtual_memory().Hold(list[i].memHandle.memHandle, kSparse);
  }
  return r;
}

CUresult OnMulticastBindMem(Call<decltype(cuMulticastBindMem)> call, Handle multicast,
                            size_t multicast_offset, Handle handle, size_t offset, size_t bytes,
                            unsigned long long flags) {
  const GatePass pass;
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr) {
    return call.real(multicast, multicast_offset, handle, offset, bytes, flags);
  }
  InShim guard;
  Handle physical = 0;
  if (auto r = ToDriver(*parts, handle, &physical); r != CUDA_SUCCESS) return r;
  const CUresult r = call.real(multicast, multicast_offset, physical, offset, bytes, flags);
  if (r != CUDA_SUCCESS) return r;
  CountTrackedCall(Entry::cuMulticastBindMem);
  parts->heap.virtual_memory().Hold(handle, kMulticast);
  return r;
}

CUresult OnMulticastBindAddr(Call<decltype(cuMulticastBindAddr)> call, Handle multicast,
                             size_t multicast_offset, CUdeviceptr at, size_t bytes,
                             unsigned long long flags) {
  const GatePass pass;
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  // The driver takes memory of cuMemCreate and of pools alone, which the heap's does not pass for.
  if (parts != nullptr && parts->heap.Find(at)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult r = call.real(multicast, multicast_offset, at, bytes, flags);
  if (r != CUDA_SUCCESS || parts == nullptr) return r;
  CountTrackedCall(Entry::cuMulticastBindAddr);
  InShim guard;
  parts->heap.virtual_memory().HoldMapped(at, bytes, kMulticast);
  return r;
}

}  // namespace parkade::shim
