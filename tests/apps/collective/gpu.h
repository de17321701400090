// The driver calls of collective, each of which ends the program when it fails.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

// Ends the program with exit code 2, naming the call, unless `result` is CUDA_SUCCESS.
void Must(CUresult result, const char* call);

// Makes device 0's primary context the calling thread's.
void UseGpu();

CUdeviceptr Allocate(size_t bytes);
CUstream MakeStream(unsigned flags);
CUevent MakeEvent();

// `later` goes on when all that is now on `first` has finished.
void Order(CUstream first, CUstream later, CUevent event);

template <typename... Parameters>
void Launch(CUfunction kernel, CUstream stream, Parameters... parameters) {
  void* pointers[] = {&parameters..., nullptr};
  Must(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, pointers, nullptr), "cuLaunchKernel");
}
