// The CUDA driver calls that stepper makes, reached by one of the three routes that real programs
// use: as linked symbols, by dlsym, or by cuGetProcAddress.
#pragma once

#include <cuda.h>

// kGetProcV1: cuGetProcAddress in its first form; kGetProc: in that of CUDA 12.
enum class Door { kLinked, kDlopen, kGetProcV1, kGetProc };

struct Driver {
  decltype(&cuInit) init;
  decltype(&cuDeviceGet) device_get;
  decltype(&cuDevicePrimaryCtxRetain) primary_ctx_retain;
  decltype(&cuCtxSetCurrent) ctx_set_current;
  decltype(&cuMemAlloc) mem_alloc;
  decltype(&cuMemFree) mem_free;
  decltype(&cuMemcpyHtoDAsync) copy_in;
  decltype(&cuMemcpyDtoHAsync) copy_out;
  decltype(&cuMemsetD8Async) set_bytes;
  decltype(&cuStreamCreate) stream_create;
  decltype(&cuStreamSynchronize) stream_synchronize;
  decltype(&cuModuleLoadData) module_load;
  decltype(&cuModuleGetFunction) module_get_function;
  decltype(&cuLaunchKernel) launch;
  decltype(&cuGetErrorName) error_name;
};

// Fills all of `driver` through `door`. Returns nullptr, or what could not be found.
const char* OpenDriver(Door door, Driver* driver);
