// Driver: the functions of the real libcuda that the shim itself calls; never a hooked one.
//
// A value that is passed by reference, so that tests hand in functions of their own.
#pragma once

#include <cuda.h>

namespace parkade::shim {

// Member and exported name. Suffixes are written out: what a bare name means depends on how cuda.h
// was included.
#define PARKADE_DRIVER_CALLS(X)                                            \
  X(get_error_name, cuGetErrorName)                                        \
  X(driver_get_version, cuDriverGetVersion)                                \
  X(device_get, cuDeviceGet)                                               \
  X(device_get_count, cuDeviceGetCount)                                    \
  X(device_get_attribute, cuDeviceGetAttribute)                            \
  X(device_get_uuid, cuDeviceGetUuid_v2)                                   \
  X(device_get_gpu_uuid, cuDeviceGetUuid)                                  \
  X(device_total_mem, cuDeviceTotalMem_v2)                                 \
  X(device_can_access_peer, cuDeviceCanAccessPeer)                         \
  X(primary_ctx_retain, cuDevicePrimaryCtxRetain)                          \
  X(ctx_get_current, cuCtxGetCurrent)                                      \
  X(ctx_set_current, cuCtxSetCurrent)                                      \
  X(ctx_push_current, cuCtxPushCurrent_v2)                                 \
  X(ctx_pop_current, cuCtxPopCurrent_v2)                                   \
  X(ctx_get_device, cuCtxGetDevice)                                        \
  X(ctx_synchronize, cuCtxSynchronize)                                     \
  X(ctx_get_flags, cuCtxGetFlags)                                          \
  X(ctx_set_flags, cuCtxSetFlags)                                          \
  X(capture_mode_exchange, cuThreadExchangeStreamCaptureMode)              \
  X(mem_get_info, cuMemGetInfo_v2)                                         \
  X(mem_alloc, cuMemAlloc_v2)                                              \
  X(mem_free, cuMemFree_v2)                                                \
  X(mem_address_reserve, cuMemAddressReserve)                              \
  X(mem_address_free, cuMemAddressFree)                                    \
  X(mem_create, cuMemCreate)                                               \
  X(mem_release, cuMemRelease)                                             \
  X(mem_export, cuMemExportToShareableHandle)                              \
  X(mem_import, cuMemImportFromShareableHandle)                            \
  X(mem_map, cuMemMap)                                                     \
  X(mem_unmap, cuMemUnmap)                                                 \
  X(mem_set_access, cuMemSetAccess)                                        \
  X(mem_get_allocation_granularity, cuMemGetAllocationGranularity)         \
  X(mem_get_allocation_properties, cuMemGetAllocationPropertiesFromHandle) \
  X(pointer_get_attribute, cuPointerGetAttribute)                          \
  X(mem_host_register, cuMemHostRegister_v2)                               \
  X(mem_host_unregister, cuMemHostUnregister)                              \
  X(memcpy_dtoh, cuMemcpyDtoH_v2)                                          \
  X(memcpy_htod, cuMemcpyHtoD_v2)                                          \
  X(memcpy_dtoh_async, cuMemcpyDtoHAsync_v2)                               \
  X(memcpy_htod_async, cuMemcpyHtoDAsync_v2)                               \
  X(memcpy_dtod_async, cuMemcpyDtoDAsync_v2)                               \
  X(memset_d32_async, cuMemsetD32Async)                                    \
  X(stream_create, cuStreamCreate)                                         \
  X(stream_destroy, cuStreamDestroy_v2)                                    \
  X(stream_query, cuStreamQuery)                                           \
  X(stream_synchronize, cuStreamSynchronize)                               \
  X(stream_wait_event, cuStreamWaitEvent)                                  \
  X(stream_is_capturing, cuStreamIsCapturing)                              \
  X(event_create, cuEventCreate)                                           \
  X(event_destroy, cuEventDestroy_v2)                                      \
  X(event_record, cuEventRecord)                                           \
  X(event_query, cuEventQuery)                                             \
  X(event_synchronize, cuEventSynchronize)                                 \
  X(module_load_data, cuModuleLoadData)                                    \
  X(module_unload, cuModuleUnload)                                         \
  X(module_get_function, cuModuleGetFunction)                              \
  X(launch_kernel, cuLaunchKernel)                                         \
  X(mem_host_alloc, cuMemHostAlloc)                                        \
  X(mem_free_host, cuMemFreeHost)                                          \
  X(device_get_default_mem_pool, cuDeviceGetDefaultMemPool)                \
  X(device_get_mem_pool, cuDeviceGetMemPool)                               \
  X(mem_pool_get_attribute, cuMemPoolGetAttribute)                         \
  X(mem_pool_trim_to, cuMemPoolTrimTo)                                     \
  X(device_get_graph_mem_attribute, cuDeviceGetGraphMemAttribute)          \
  X(device_graph_mem_trim, cuDeviceGraphMemTrim)                           \
  X(mem_prefetch_async, cuMemPrefetchAsync_v2)

// Every member may be null: an older driver lacks newer functions.
struct Driver {
#define PARKADE_DRIVER_MEMBER(member, symbol) decltype(&symbol) member = nullptr;
  PARKADE_DRIVER_CALLS(PARKADE_DRIVER_MEMBER)
#undef PARKADE_DRIVER_MEMBER
};

// The address of an exported name of the real libcuda, or null.
using SymbolLookup = void* (*)(const char* symbol);

// Fills every member that `lookup` finds. Any thread; calls nothing in the driver.
Driver LoadDriver(SymbolLookup lookup);

}  // namespace parkade::shim
