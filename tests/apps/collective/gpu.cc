// Calls the driver, and ends the program when it refuses.
#include "tests/apps/collective/gpu.h"

#include <cstdio>
#include <cstdlib>

void Must(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = "unknown error";
  cuGetErrorName(result, &name);
  fprintf(stderr, "collective: %s: %s (%d)\n", call, name, result);
  _Exit(2);  // not exit: other threads are at work
}

void UseGpu() {
  CUdevice device;
  CUcontext context;
  Must(cuInit(0), "cuInit");
  Must(cuDeviceGet(&device, 0), "cuDeviceGet");
  Must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  Must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

CUdeviceptr Allocate(size_t bytes) {
  CUdeviceptr at;
  Must(cuMemAlloc(&at, bytes), "cuMemAlloc");
  return at;
}

CUstream MakeStream(unsigned flags) {
  CUstream stream;
  Must(cuStreamCreate(&stream, flags), "cuStreamCreate");
  return stream;
}

CUevent MakeEvent() {
  CUevent event;
  Must(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  return event;
}

void Order(CUstream first, CUstream later, CUevent event) {
  Must(cuEventRecord(event, first), "cuEventRecord");
  Must(cuStreamWaitEvent(later, event, 0), "cuStreamWaitEvent");
}
