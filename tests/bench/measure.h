// A clock, and an end with a message for calls that must not fail.
#pragma once

#include <cuda.h>

#include <cstdio>
#include <cstdlib>

#include "common/deadline.h"

namespace parkade::bench {

inline double Now() { return static_cast<double>(MonotonicNs()) * 1e-9; }

[[noreturn]] inline void Fail(const char* what, const char* why) {
  fprintf(stderr, "probe: %s: %s\n", what, why);
  exit(1);
}

// One figure, at once: whoever asked for it waits.
inline void Answer(double figure) {
  printf("%.3f\n", figure);
  fflush(stdout);
}

inline void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = "unknown error";
  cuGetErrorName(result, &name);
  Fail(what, name);
}

}  // namespace parkade::bench
