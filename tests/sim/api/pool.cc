// cuMemAllocAsync, cuMemFreeAsync and cuMemPool*. Memory is there when the call returns, earlier
// than a stream may rely on; it is freed in stream order.
#include "tests/sim/pool.h"

#include <array>

using namespace parkade;
using namespace parkade::sim;

namespace {

Registry<Pool, CUmemoryPool>& AllPools() {
  static auto* const pools = new Registry<Pool, CUmemoryPool>;
  return *pools;
}

struct DevicePools {
  CUmemoryPool standard = nullptr;
  CUmemoryPool current = nullptr;
};
Mutex device_mutex;
std::array<DevicePools, kMaxGpus> devices GUARDED_BY(device_mutex);

DevicePools PoolsOf(int gpu) {
  MutexLock lock(device_mutex);
  DevicePools& pools = devices[size_t(gpu)];
  if (pools.standard == nullptr) {
    pools.standard = AllPools().Add(std::make_shared<Pool>(gpu));
    pools.current = pools.standard;
  }
  return pools;
}

bool Known(CUdevice gpu) { return gpu >= 0 && gpu < Sim().settings.gpus; }

CUresult Allocate(Context& context, CUmemoryPool handle, CUstream stream_handle, Bytes bytes,
                  CUdeviceptr* out) {
  const auto pool = AllPools().Find(handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  if (auto r = FindStream(context, stream_handle, &stream); r != CUDA_SUCCESS) return r;
  // In a capture this would have to become an allocation node.
  if (auto r = Sim().captures.RefuseOn(*stream); r != CUDA_SUCCESS) return r;
  if (auto r = Sim().captures.RefuseUnsafe(); r != CUDA_SUCCESS) return r;
  if (bytes == 0) return CUDA_SUCCESS;
  Address base = 0;
  const CUresult result = pool->Allocate(context, handle, bytes, &base);
  if (result == CUDA_SUCCESS) *out = base;
  return result;
}

template <CallName kName, typename Body>
CUresult CallWith(CUmemoryPool handle, Body body) {
  return Call<kName>([&] {
    const auto pool = AllPools().Find(handle);
    return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*pool);
  });
}

}  // namespace

namespace parkade::sim {
std::shared_ptr<Pool> FindPool(CUmemoryPool handle) { return AllPools().Find(handle); }
}  // namespace parkade::sim

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice gpu) {
  return Call<"cuDeviceGetDefaultMemPool">([&] {
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    *pool = PoolsOf(gpu).standard;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice gpu) {
  return Call<"cuDeviceGetMemPool">([&] {
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    *pool = PoolsOf(gpu).current;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceSetMemPool(CUdevice gpu, CUmemoryPool handle) {
  return CallWith<"cuDeviceSetMemPool">(handle, [&](Pool& pool) {
    if (!Known(gpu) || pool.gpu != gpu) return CUDA_ERROR_INVALID_VALUE;
    PoolsOf(gpu);
    MutexLock lock(device_mutex);
    devices[size_t(gpu)].current = handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool handle) {
  return CallWith<"cuMemSetMemPool">(handle, [&](Pool& pool) {
    // Those of the host and of managed memory are not simulated.
    if (location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        type != CU_MEM_ALLOCATION_TYPE_PINNED || !Known(location->id) || pool.gpu != location->id) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    PoolsOf(pool.gpu);
    MutexLock lock(device_mutex);
    devices[size_t(pool.gpu)].current = handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* props) {
  return Call<"cuMemPoolCreate">([&] {
    if (pool == nullptr || props == nullptr || !Known(props->location.id))
      return CUDA_ERROR_INVALID_VALUE;
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
    *pool = AllPools().Add(std::make_shared<Pool>(props->location.id));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  return CallWith<"cuMemPoolDestroy">(handle, [&](Pool& pool) {
    if (PoolsOf(pool.gpu).standard == handle) return CUDA_ERROR_INVALID_VALUE;
    MutexLock lock(device_mutex);
    DevicePools& pools = devices[size_t(pool.gpu)];
    if (pools.current == handle) pools.current = pools.standard;
    AllPools().Remove(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  return CallWith<"cuMemPoolTrimTo">(handle, [&](Pool& pool) {
    if (auto r = Sim().captures.RefuseUnsafe(); r != CUDA_SUCCESS) return r;
    pool.Trim(keep);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  return CallWith<"cuMemPoolSetAttribute">(
      handle, [&](Pool& pool) { return pool.SetAttribute(attribute, value); });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  return CallWith<"cuMemPoolGetAttribute">(handle, [&](Pool& pool) {
    if (auto r = Sim().captures.RefuseUnsafe(); r != CUDA_SUCCESS) return r;
    return pool.GetAttribute(attribute, value);
  });
}

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return CallIn<"cuMemAllocAsync">([&](Context& context) {
    return Allocate(context, PoolsOf(context.gpu).current, stream, bytes, out);
  });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
  return CallIn<"cuMemAllocFromPoolAsync">(
      [&](Context& context) { return Allocate(context, pool, stream, bytes, out); });
}

CUresult cuMemFreeAsync(CUdeviceptr base, CUstream stream_handle) {
  return CallIn<"cuMemFreeAsync">([&](Context& context) {
    if (base == 0) return CUDA_SUCCESS;
    const auto found = Sim().addresses.Find(base);
    if (!found || found->range.base != base || found->range.kind != RangeKind::kNative)
      return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Stream> stream;
    if (auto r = FindStream(context, stream_handle, &stream); r != CUDA_SUCCESS) return r;
    if (auto r = Sim().captures.RefuseOn(*stream); r != CUDA_SUCCESS) return r;
    if (auto r = Sim().captures.RefuseUnsafe(); r != CUDA_SUCCESS) return r;
    const auto pool = FindPool(found->range.pool);
    return Enqueue(context, stream_handle, CU_GRAPH_NODE_TYPE_MEM_FREE, [base, pool] {
      if (pool != nullptr) return pool->Free(base);
      Sim().addresses.Remove(base, RangeKind::kNative);
      return CUDA_SUCCESS;
    });
  });
}

// Pools are not shared here, so no pointer is in one that is.
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData*, CUdeviceptr) {
  return Call<"cuMemPoolExportPointer">([] { return CUDA_ERROR_INVALID_VALUE; });
}
