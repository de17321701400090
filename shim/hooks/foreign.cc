// Handlers of memory that stays the driver's own: each call goes through, and what it made is
// counted.
#include "shim/heap/foreign.h"

#include <algorithm>

#include "shim/hooks/free_counted.h"
#include "shim/hooks/gate_pass.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/hooked.h"

namespace parkade::shim {
namespace {

using wire::ForeignKind;

// A pool hands its memory out again, so what it holds changes seldom; but with this much at once.
constexpr Bytes kLargeRequest = 1_MiB;

// Asking pools ends a capture (580): then they are asked by a later call, or by the pause.
void MeasurePools(Foreign& foreign, Foreign::Measure when) {
  if (Gate::Capturing()) return;
  InShim guard;
  foreign.MeasurePools(when);
}

// The device whose memory lies at `at`: not always the current one.
std::optional<int> DeviceOf(const Driver& driver, CUdeviceptr at) {
  unsigned type = 0;
  int device = 0;
  if (driver.pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) != CUDA_SUCCESS ||
      type != CU_MEMORYTYPE_DEVICE ||
      driver.pointer_get_attribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) !=
          CUDA_SUCCESS) {
    return std::nullopt;
  }
  return device;
}

// Memory was taken from a pool of the application's own, or of a device where `pool` is null. One
// that it has by another way than making it may be a device's, too.
void NotePoolUse(const void* caller, CUdeviceptr at, CUmemoryPool pool, Bytes bytes) {
  NoteCurrentContext();
  Parts* parts = PartsFor(caller);
  if (parts == nullptr) return;
  Foreign& foreign = parts->foreign;
  const bool known = pool != nullptr && foreign.HasPool(pool);
  const bool may_be_a_node = Gate::Capturing();
  if (!known || may_be_a_node) {
    // A device's own pool is of a device that is in use: where that is one, nobody has to be asked.
    auto device = pool == nullptr ? parts->contexts.only_device() : std::nullopt;
    if (!device) device = DeviceOf(parts->driver, at);
    if (!device) return;
    if (!known && pool != nullptr) foreign.AddPool(pool, *device);
    if (pool == nullptr) foreign.UsesPoolOf(*device, may_be_a_node);
    if (may_be_a_node) foreign.AddGraphMemory(*device);
  }
  MeasurePools(foreign,
               bytes >= kLargeRequest ? Foreign::Measure::kNow : Foreign::Measure::kSometimes);
}

// From now on memory is taken from `pool` that names none.
CUresult NotePool(const void* caller, CUresult set, int device, CUmemoryPool pool) {
  Parts* parts = PartsFor(caller);
  if (set == CUDA_SUCCESS && parts != nullptr) parts->foreign.AddPool(pool, device);
  return set;
}

void Note(const void* caller, ForeignKind kind, uint64_t key, Bytes bytes) {
  NoteCurrentContext();
  Parts* parts = PartsFor(caller);
  if (parts != nullptr) parts->foreign.Add(kind, key, bytes);
}

void NotePinned(const void* caller, const void* host, Bytes bytes) {
  Parts* parts = PartsFor(caller);
  if (parts != nullptr) parts->foreign.Pin(host, bytes);
}

// A driver that takes a null pointer for a success has made nothing to count.
template <typename T>
bool Made(CUresult result, const T* out) {
  return result == CUDA_SUCCESS && out != nullptr;
}

template <typename Handle>
uint64_t KeyOf(Handle handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

template <typename F, typename Handle>
CUresult DestroyArray(Call<F> call, Handle array) {
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  return FreeCounted(call.caller, KeyOf(array), [&] { return call.real(array); });
}

template <typename F>
CUresult EndPinning(Call<F> call, void* host) {
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  const auto pinned = parts == nullptr ? std::nullopt : parts->foreign.Unpin(host);
  const CUresult r = call.real(host);
  if (r != CUDA_SUCCESS && pinned) parts->foreign.PutBack(host, *pinned);
  return r;
}

// As far as shapes tell: block-compressed and planar formats are counted by their elements' size in
// a plain one.
Bytes ElementBytes(CUarray_format format) {
  switch (int(format)) {
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 1;
  }
}

Bytes ArrayBytes(Bytes width, Bytes height, Bytes depth, unsigned channels, CUarray_format format) {
  return width * std::max<Bytes>(height, 1) * std::max<Bytes>(depth, 1) * channels *
         ElementBytes(format);
}

}  // namespace

CUresult OnMemAllocManaged(Call<decltype(cuMemAllocManaged)> call, CUdeviceptr* out, size_t bytes,
                           unsigned flags) {
  const GatePass pass(Gate::Call::kAllocation);
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, bytes, flags);
  if (Made(r, out)) Note(call.caller, ForeignKind::kManaged, *out, bytes);
  return r;
}

CUresult OnMemAllocAsync(Call<decltype(cuMemAllocAsync)> call, CUdeviceptr* out, size_t bytes,
                         CUstream stream) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, bytes, stream);
  if (Made(r, out)) NotePoolUse(call.caller, *out, nullptr, bytes);
  return r;
}

CUresult OnMemAllocFromPoolAsync(Call<decltype(cuMemAllocFromPoolAsync)> call, CUdeviceptr* out,
                                 size_t bytes, CUmemoryPool pool, CUstream stream) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, bytes, pool, stream);
  if (Made(r, out)) NotePoolUse(call.caller, *out, pool, bytes);
  return r;
}

CUresult OnMemPoolCreate(Call<decltype(cuMemPoolCreate)> call, CUmemoryPool* out,
                         const CUmemPoolProps* properties) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, properties);
  Parts* parts = PartsFor(call.caller);
  if (Made(r, out) && parts != nullptr &&
      properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    parts->foreign.AddPool(*out, properties->location.id);
  }
  return r;
}

CUresult OnMemPoolDestroy(Call<decltype(cuMemPoolDestroy)> call, CUmemoryPool pool) {
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  Parts* parts = PartsFor(call.caller);
  const auto device = parts == nullptr ? std::nullopt : parts->foreign.TakePool(pool);
  const CUresult r = call.real(pool);
  if (!device) return r;
  if (r != CUDA_SUCCESS) parts->foreign.AddPool(pool, *device);
  MeasurePools(parts->foreign, Foreign::Measure::kNow);
  return r;
}

CUresult OnMemPoolTrimTo(Call<decltype(cuMemPoolTrimTo)> call, CUmemoryPool pool, size_t keep) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult r = call.real(pool, keep);
  Parts* parts = PartsFor(call.caller);
  if (r == CUDA_SUCCESS && parts != nullptr) MeasurePools(parts->foreign, Foreign::Measure::kNow);
  return r;
}

CUresult OnDeviceSetMemPool(Call<decltype(cuDeviceSetMemPool)> call, CUdevice device,
                            CUmemoryPool pool) {
  return NotePool(call.caller, call.real(device, pool), device, pool);
}

CUresult OnMemSetMemPool(Call<decltype(cuMemSetMemPool)> call, CUmemLocation* location,
                         CUmemAllocationType type, CUmemoryPool pool) {
  const CUresult r = call.real(location, type, pool);
  if (location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return r;
  return NotePool(call.caller, r, location->id, pool);
}

CUresult OnArrayCreate(Call<decltype(cuArrayCreate_v2)> call, CUarray* out,
                       const CUDA_ARRAY_DESCRIPTOR* shape) {
  const GatePass pass(Gate::Call::kAllocation);
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, shape);
  if (!Made(r, out)) return r;
  Note(call.caller, ForeignKind::kArray, KeyOf(*out),
       ArrayBytes(shape->Width, shape->Height, 1, shape->NumChannels, shape->Format));
  return r;
}

CUresult OnArray3DCreate(Call<decltype(cuArray3DCreate_v2)> call, CUarray* out,
                         const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  const GatePass pass(Gate::Call::kAllocation);
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, shape);
  if (!Made(r, out)) return r;
  Note(call.caller, ForeignKind::kArray, KeyOf(*out),
       ArrayBytes(shape->Width, shape->Height, shape->Depth, shape->NumChannels, shape->Format));
  return r;
}

CUresult OnMipmappedArrayCreate(Call<decltype(cuMipmappedArrayCreate)> call, CUmipmappedArray* out,
                                const CUDA_ARRAY3D_DESCRIPTOR* shape, unsigned levels) {
  const GatePass pass(Gate::Call::kAllocation);
  if (!pass) return kNoPass;
  const CUresult r = call.real(out, shape, levels);
  if (!Made(r, out)) return r;
  Bytes bytes = 0;
  for (unsigned level = 0; level < levels && level < 32; ++level) {
    bytes += ArrayBytes(std::max<Bytes>(shape->Width >> level, 1), shape->Height >> level,
                        shape->Depth >> level, shape->NumChannels, shape->Format);
  }
  Note(call.caller, ForeignKind::kArray, KeyOf(*out), bytes);
  return r;
}

CUresult OnArrayDestroy(Call<decltype(cuArrayDestroy)> call, CUarray array) {
  return DestroyArray(call, array);
}

CUresult OnMipmappedArrayDestroy(Call<decltype(cuMipmappedArrayDestroy)> call,
                                 CUmipmappedArray array) {
  return DestroyArray(call, array);
}

CUresult OnMemAllocHost(Call<decltype(cuMemAllocHost_v2)> call, void** out, size_t bytes) {
  const CUresult r = call.real(out, bytes);
  if (Made(r, out)) NotePinned(call.caller, *out, bytes);
  return r;
}

CUresult OnMemHostAlloc(Call<decltype(cuMemHostAlloc)> call, void** out, size_t bytes,
                        unsigned flags) {
  const CUresult r = call.real(out, bytes, flags);
  if (Made(r, out)) NotePinned(call.caller, *out, bytes);
  return r;
}

CUresult OnMemHostRegister(Call<decltype(cuMemHostRegister_v2)> call, void* host, size_t bytes,
                           unsigned flags) {
  const CUresult r = call.real(host, bytes, flags);
  if (r == CUDA_SUCCESS) NotePinned(call.caller, host, bytes);
  return r;
}

CUresult OnMemFreeHost(Call<decltype(cuMemFreeHost)> call, void* host) {
  return EndPinning(call, host);
}

CUresult OnMemHostUnregister(Call<decltype(cuMemHostUnregister)> call, void* host) {
  return EndPinning(call, host);
}

}  // namespace parkade::shim
