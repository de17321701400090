// The handlers of entries with the policy "custom". Each is called by generated wrappers alone, on
// the application's thread, and answers with the driver's own codes.
//
// Forms that differ in the stream they mean, or in nothing, share one: `call.real` is the form
// called.
#pragma once

#include "shim/hooks/call.h"

namespace parkade::shim {

// route_proc_address.cc: the driver's own answer, with functions of libcuda replaced by the shim's.
CUresult OnGetProcAddress(Call<decltype(cuGetProcAddress)> call, const char* symbol,
                          void** function, int version, cuuint64_t flags);
CUresult OnGetProcAddressV2(Call<decltype(cuGetProcAddress_v2)> call, const char* symbol,
                            void** function, int version, cuuint64_t flags,
                            CUdriverProcAddressQueryResult* status);

// contexts.cc: the driver, then lifecycle learns of it. Gated.
CUresult OnCtxCreate(Call<decltype(cuCtxCreate)> call, CUcontext* out, unsigned flags,
                     CUdevice device);
CUresult OnCtxCreateV3(Call<decltype(cuCtxCreate_v3)> call, CUcontext* out,
                       CUexecAffinityParam* affinity, int affinity_count, unsigned flags,
                       CUdevice device);
CUresult OnCtxCreateV4(Call<decltype(cuCtxCreate_v4)> call, CUcontext* out,
                       CUctxCreateParams* params, unsigned flags, CUdevice device);
CUresult OnCtxFromGreenCtx(Call<decltype(cuCtxFromGreenCtx)> call, CUcontext* out,
                           CUgreenCtx green);
CUresult OnPrimaryCtxRetain(Call<decltype(cuDevicePrimaryCtxRetain)> call, CUcontext* out,
                            CUdevice device);
CUresult OnCtxDestroy(Call<decltype(cuCtxDestroy)> call, CUcontext context);
CUresult OnPrimaryCtxRelease(Call<decltype(cuDevicePrimaryCtxRelease)> call, CUdevice device);
CUresult OnPrimaryCtxReset(Call<decltype(cuDevicePrimaryCtxReset)> call, CUdevice device);

// captures.cc: beginning waits while a pause holds captures back; ending never waits.
CUresult OnBeginCaptureV1(Call<decltype(cuStreamBeginCapture)> call, CUstream stream);
CUresult OnBeginCapture(Call<decltype(cuStreamBeginCapture_v2)> call, CUstream stream,
                        CUstreamCaptureMode mode);
CUresult OnBeginCaptureToGraph(Call<decltype(cuStreamBeginCaptureToGraph)> call, CUstream stream,
                               CUgraph graph, const CUgraphNode* dependencies,
                               const CUgraphEdgeData* edges, size_t dependency_count,
                               CUstreamCaptureMode mode);
CUresult OnEndCapture(Call<decltype(cuStreamEndCapture)> call, CUstream stream, CUgraph* graph);

// streams.cc: gated; the list of streams is kept.
CUresult OnStreamCreate(Call<decltype(cuStreamCreate)> call, CUstream* out, unsigned flags);
CUresult OnStreamCreateWithPriority(Call<decltype(cuStreamCreateWithPriority)> call, CUstream* out,
                                    unsigned flags, int priority);
CUresult OnStreamDestroy(Call<decltype(cuStreamDestroy)> call, CUstream stream);

// memory.cc: from the heap, or native for communication libraries and devices without virtual
// memory management. Allocating is gated; freeing what is out needs no GPU and does not wait.
CUresult OnMemAlloc(Call<decltype(cuMemAlloc_v2)> call, CUdeviceptr* out, size_t bytes);
CUresult OnMemAllocPitch(Call<decltype(cuMemAllocPitch_v2)> call, CUdeviceptr* out, size_t* pitch,
                         size_t width, size_t height, unsigned element_bytes);
CUresult OnMemFree(Call<decltype(cuMemFree_v2)> call, CUdeviceptr ptr);
// Memory of the heap is freed at once, after all work on it has ended: never too early, and what
// cudaFreeAsync of cudaMalloc's memory promises at the stream's next synchronisation.
CUresult OnMemFreeAsync(Call<decltype(cuMemFreeAsync)> call, CUdeviceptr ptr, CUstream stream);

// virtual_memory.cc: memory of devices is the heap's to move, under handles that stay good; that of
// hosts, communication libraries and other processes is native, and counted while it is mapped.
// Making, mapping and allowing are gated as allocations, the opposites as frees; asking never.
CUresult OnMemCreate(Call<decltype(cuMemCreate)> call, CUmemGenericAllocationHandle* handle,
                     size_t bytes, const CUmemAllocationProp* prop, unsigned long long flags);
CUresult OnMemRelease(Call<decltype(cuMemRelease)> call, CUmemGenericAllocationHandle handle);
CUresult OnMemMap(Call<decltype(cuMemMap)> call, CUdeviceptr at, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags);
CUresult OnMemUnmap(Call<decltype(cuMemUnmap)> call, CUdeviceptr at, size_t bytes);
CUresult OnMemSetAccess(Call<decltype(cuMemSetAccess)> call, CUdeviceptr at, size_t bytes,
                        const CUmemAccessDesc* access, size_t count);
CUresult OnMemAddressFree(Call<decltype(cuMemAddressFree)> call, CUdeviceptr at, size_t bytes);
CUresult OnMemGetAccess(Call<decltype(cuMemGetAccess)> call, unsigned long long* flags,
                        const CUmemLocation* location, CUdeviceptr at);
CUresult OnMemGetAllocationProperties(Call<decltype(cuMemGetAllocationPropertiesFromHandle)> call,
                                      CUmemAllocationProp* prop,
                                      CUmemGenericAllocationHandle handle);
// The driver does it with its own handle; the memory is held from then on.
CUresult OnMemExport(Call<decltype(cuMemExportToShareableHandle)> call, void* out,
                     CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                     unsigned long long flags);
CUresult OnMemMapArrayAsync(Call<decltype(cuMemMapArrayAsync)> call, CUarrayMapInfo* list,
                            unsigned count, CUstream stream);
CUresult OnMulticastBindMem(Call<decltype(cuMulticastBindMem)> call,
                            CUmemGenericAllocationHandle multicast, size_t multicast_offset,
                            CUmemGenericAllocationHandle handle, size_t offset, size_t bytes,
                            unsigned long long flags);
CUresult OnMulticastBindAddr(Call<decltype(cuMulticastBindAddr)> call,
                             CUmemGenericAllocationHandle multicast, size_t multicast_offset,
                             CUdeviceptr at, size_t bytes, unsigned long long flags);

// foreign.cc: the driver's own memory of these kinds, counted (shim/heap/foreign.h). Gated, but for
// the pinning of host memory.
CUresult OnMemAllocManaged(Call<decltype(cuMemAllocManaged)> call, CUdeviceptr* out, size_t bytes,
                           unsigned flags);
CUresult OnMemAllocAsync(Call<decltype(cuMemAllocAsync)> call, CUdeviceptr* out, size_t bytes,
                         CUstream stream);
CUresult OnMemAllocFromPoolAsync(Call<decltype(cuMemAllocFromPoolAsync)> call, CUdeviceptr* out,
                                 size_t bytes, CUmemoryPool pool, CUstream stream);
CUresult OnMemPoolCreate(Call<decltype(cuMemPoolCreate)> call, CUmemoryPool* out,
                         const CUmemPoolProps* properties);
CUresult OnMemPoolDestroy(Call<decltype(cuMemPoolDestroy)> call, CUmemoryPool pool);
CUresult OnMemPoolTrimTo(Call<decltype(cuMemPoolTrimTo)> call, CUmemoryPool pool, size_t keep);
CUresult OnDeviceSetMemPool(Call<decltype(cuDeviceSetMemPool)> call, CUdevice device,
                            CUmemoryPool pool);
CUresult OnMemSetMemPool(Call<decltype(cuMemSetMemPool)> call, CUmemLocation* location,
                         CUmemAllocationType type, CUmemoryPool pool);
CUresult OnArrayCreate(Call<decltype(cuArrayCreate_v2)> call, CUarray* out,
                       const CUDA_ARRAY_DESCRIPTOR* shape);
CUresult OnArray3DCreate(Call<decltype(cuArray3DCreate_v2)> call, CUarray* out,
                         const CUDA_ARRAY3D_DESCRIPTOR* shape);
CUresult OnMipmappedArrayCreate(Call<decltype(cuMipmappedArrayCreate)> call, CUmipmappedArray* out,
                                const CUDA_ARRAY3D_DESCRIPTOR* shape, unsigned levels);
CUresult OnArrayDestroy(Call<decltype(cuArrayDestroy)> call, CUarray array);
CUresult OnMipmappedArrayDestroy(Call<decltype(cuMipmappedArrayDestroy)> call,
                                 CUmipmappedArray array);
CUresult OnMemAllocHost(Call<decltype(cuMemAllocHost_v2)> call, void** out, size_t bytes);
CUresult OnMemHostAlloc(Call<decltype(cuMemHostAlloc)> call, void** out, size_t bytes,
                        unsigned flags);
CUresult OnMemHostRegister(Call<decltype(cuMemHostRegister_v2)> call, void* host, size_t bytes,
                           unsigned flags);
CUresult OnMemFreeHost(Call<decltype(cuMemFreeHost)> call, void* host);
CUresult OnMemHostUnregister(Call<decltype(cuMemHostUnregister)> call, void* host);

// graph_memory.cc: gated; memory nodes are counted where a graph with some is launched.
CUresult OnGraphAddMemAllocNode(Call<decltype(cuGraphAddMemAllocNode)> call, CUgraphNode* out,
                                CUgraph graph, const CUgraphNode* dependencies,
                                size_t dependency_count, CUDA_MEM_ALLOC_NODE_PARAMS* params);
CUresult OnGraphAddNode(Call<decltype(cuGraphAddNode)> call, CUgraphNode* out, CUgraph graph,
                        const CUgraphNode* dependencies, size_t dependency_count,
                        CUgraphNodeParams* params);
CUresult OnGraphAddNodeV2(Call<decltype(cuGraphAddNode_v2)> call, CUgraphNode* out, CUgraph graph,
                          const CUgraphNode* dependencies, const CUgraphEdgeData* edges,
                          size_t dependency_count, CUgraphNodeParams* params);
CUresult OnGraphLaunch(Call<decltype(cuGraphLaunch)> call, CUgraphExec exec, CUstream stream);
CUresult OnGraphMemTrim(Call<decltype(cuDeviceGraphMemTrim)> call, CUdevice device);

// queries.cc: never gated; Triton asks for every argument of a kernel, also while paused.
CUresult OnPointerGetAttribute(Call<decltype(cuPointerGetAttribute)> call, void* to,
                               CUpointer_attribute attribute, CUdeviceptr ptr);
CUresult OnPointerGetAttributes(Call<decltype(cuPointerGetAttributes)> call, unsigned count,
                                CUpointer_attribute* attributes, void** to, CUdeviceptr ptr);
// Gated. Of the heap's memory SYNC_MEMOPS is kept here, and all of its context obeys it.
CUresult OnPointerSetAttribute(Call<decltype(cuPointerSetAttribute)> call, const void* value,
                               CUpointer_attribute attribute, CUdeviceptr ptr);
// Neither knows native device memory, as both do virtual memory. The first is gated.
CUresult OnMemHostGetDevicePointer(Call<decltype(cuMemHostGetDevicePointer_v2)> call,
                                   CUdeviceptr* out, void* host, unsigned flags);
CUresult OnMemHostGetFlags(Call<decltype(cuMemHostGetFlags)> call, unsigned* flags, void* host);
CUresult OnMemGetAddressRange(Call<decltype(cuMemGetAddressRange_v2)> call, CUdeviceptr* base,
                              size_t* bytes, CUdeviceptr ptr);
CUresult OnMemRetainAllocationHandle(Call<decltype(cuMemRetainAllocationHandle)> call,
                                     CUmemGenericAllocationHandle* handle, void* address);

// peers.cc: gated; the heap's memory follows the driver's own.
CUresult OnEnablePeerAccess(Call<decltype(cuCtxEnablePeerAccess)> call, CUcontext peer,
                            unsigned flags);
CUresult OnDisablePeerAccess(Call<decltype(cuCtxDisablePeerAccess)> call, CUcontext peer);

// sharing.cc: gated, but for asking another process. Closing waits for the context's work, as
// native.
CUresult OnIpcGetMemHandle(Call<decltype(cuIpcGetMemHandle)> call, CUipcMemHandle* handle,
                           CUdeviceptr ptr);
CUresult OnIpcOpenMemHandle(Call<decltype(cuIpcOpenMemHandle_v2)> call, CUdeviceptr* out,
                            CUipcMemHandle handle, unsigned flags);
CUresult OnIpcCloseMemHandle(Call<decltype(cuIpcCloseMemHandle)> call, CUdeviceptr ptr);
// The driver's own answer; memory of the heap that is concerned is held from then on.
CUresult OnMemGetHandleForAddressRange(Call<decltype(cuMemGetHandleForAddressRange)> call,
                                       void* handle, CUdeviceptr ptr, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags);

}  // namespace parkade::shim
