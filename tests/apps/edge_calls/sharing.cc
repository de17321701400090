// CUDA IPC within one process, and peers where there is but one device.
#include <cstring>

#include "tests/apps/edge_calls/case.h"

namespace {

bool Same(const CUipcMemHandle& one, const CUipcMemHandle& two) {
  return memcmp(&one, &two, sizeof one) == 0;
}

void Get(Answer& a, CUdeviceptr at) {
  CUipcMemHandle handle;
  memset(&handle, 0x5a, sizeof handle);
  const CUipcMemHandle before = handle;
  a.Code(cuIpcGetMemHandle(&handle, at)).Note("out=%s", Same(handle, before) ? "untouched" : "set");
}

CUipcMemHandle Take(CUdeviceptr at) {
  CUipcMemHandle handle;
  memset(&handle, 0, sizeof handle);
  Must(cuIpcGetMemHandle(&handle, at), "cuIpcGetMemHandle");
  return handle;
}

void Open(Answer& a, const CUipcMemHandle& handle, unsigned flags) {
  CUdeviceptr p = kUntouched;
  const CUresult r = cuIpcOpenMemHandle(&p, handle, flags);
  a.Code(r).Note("out=%s", Touched(p));
  if (r == CUDA_SUCCESS) a.Code("close", cuIpcCloseMemHandle(p));
}

const Case kCases[] = {
    {"ipc_get_base",
     [](Answer& a) {
       const Memory m(kMiddle);
       Get(a, m);
     }},
    {"ipc_get_small",
     [](Answer& a) {
       const Memory m(kSmall);
       Get(a, m);
     }},
    {"ipc_get_inside",
     [](Answer& a) {
       const Memory m(kLarge);
       Get(a, m + 10);
       Get(a, m + (550 << 20));
       Get(a, m.end() - 1);
       a.Note("same=%d", Same(Take(m), Take(m + (550 << 20))));
     }},
    {"ipc_get_end",
     [](Answer& a) {
       const Memory m(kSmall);
       Get(a, m.end());
     }},
    {"ipc_get_twice",
     [](Answer& a) {
       const Memory m(4 << 20), other(4 << 20);
       a.Note("same=%d other=%d", Same(Take(m), Take(m)), Same(Take(m), Take(other)));
     }},
    {"ipc_get_null_out",
     [](Answer& a) {
       const Memory m(kSmall);
       a.Code(cuIpcGetMemHandle(nullptr, m));
     }},
    {"ipc_get_null", [](Answer& a) { Get(a, 0); }},
    {"ipc_get_freed", [](Answer& a) { Get(a, Freed(kMiddle)); }},
    {"ipc_get_host", [](Answer& a) { Get(a, AsDevice(host_bytes)); }},
    {"ipc_get_pinned",
     [](Answer& a) {
       void* pinned = nullptr;
       Must(cuMemAllocHost(&pinned, kSmall), "cuMemAllocHost");
       Get(a, AsDevice(pinned));
       Must(cuMemFreeHost(pinned), "cuMemFreeHost");
     }},
    {"ipc_get_managed",
     [](Answer& a) {
       CUdeviceptr p = 0;
       Must(cuMemAllocManaged(&p, kSmall, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
       Get(a, p);
       Must(cuMemFree(p), "cuMemFree");
     }},
    {"ipc_get_pool_memory",
     [](Answer& a) {
       const Stream stream;
       CUdeviceptr p = 0;
       Must(cuMemAllocAsync(&p, kSmall, stream), "cuMemAllocAsync");
       Must(cuStreamSynchronize(stream), "cuStreamSynchronize");
       Get(a, p);
       Must(cuMemFree(p), "cuMemFree");
     }},
    {"ipc_open_own",
     [](Answer& a) {
       const Memory m(kMiddle);
       Open(a, Take(m), CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
     }},
    {"ipc_open_own_of_freed",
     [](Answer& a) {
       CUipcMemHandle handle;
       {
         const Memory m(kLarge);
         handle = Take(m);
       }
       Open(a, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
     }},
    {"ipc_open_no_flags",
     [](Answer& a) {
       const Memory m(kMiddle);
       Open(a, Take(m), 0);
     }},
    {"ipc_open_bad_flags",
     [](Answer& a) {
       const Memory m(kMiddle);
       Open(a, Take(m), 2);
       Open(a, Take(m), 0xffffffff);
     }},
    {"ipc_open_null_out",
     [](Answer& a) {
       const Memory m(kMiddle);
       a.Code(cuIpcOpenMemHandle(nullptr, Take(m), CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
     }},
    {"ipc_open_zeroes",
     [](Answer& a) {
       CUipcMemHandle handle;
       memset(&handle, 0, sizeof handle);
       Open(a, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
     }},
    {"ipc_close_null", [](Answer& a) { a.Code(cuIpcCloseMemHandle(0)); }},
    {"ipc_close_low_address", [](Answer& a) { a.Code(cuIpcCloseMemHandle(16)); }},
    {"ipc_close_own_memory",
     [](Answer& a) {
       const Memory m(kMiddle);
       a.Code(cuIpcCloseMemHandle(m));
     }},
    {"ipc_close_freed", [](Answer& a) { a.Code(cuIpcCloseMemHandle(Freed(kMiddle))); }},
    {"peer_enable_null", [](Answer& a) { a.Code(cuCtxEnablePeerAccess(nullptr, 0)); }},
    {"peer_enable_self", [](Answer& a) { a.Code(cuCtxEnablePeerAccess(PrimaryContext(), 0)); }},
    {"peer_enable_same_device",
     [](Answer& a) {
       const OtherContext other;
       a.Code(cuCtxEnablePeerAccess(PrimaryContext(), 0));
     }},
    {"peer_enable_bad_flags",
     [](Answer& a) { a.Code(cuCtxEnablePeerAccess(PrimaryContext(), 7)); }},
    {"peer_disable_not_enabled",
     [](Answer& a) { a.Code(cuCtxDisablePeerAccess(PrimaryContext())); }},
    {"peer_disable_null", [](Answer& a) { a.Code(cuCtxDisablePeerAccess(nullptr)); }},
    {"peer_ask_same_device",
     [](Answer& a) {
       int can = -1;
       a.Code(cuDeviceCanAccessPeer(&can, 0, 0)).Note("can=%d", can);
     }},
    {"peer_ask_no_device",
     [](Answer& a) {
       int can = -1;
       a.Code(cuDeviceCanAccessPeer(&can, 0, 99)).Note("can=%d", can);
       a.Code(cuDeviceCanAccessPeer(nullptr, 0, 0));
     }},
};

}  // namespace

std::span<const Case> SharingCases() { return kCases; }
