// cuda.h as the simulated driver implements it: every version of every name, all of them exported.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#error "compile the simulated driver with -D__CUDA_API_VERSION_INTERNAL"
#endif

#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop
