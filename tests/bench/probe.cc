// Measures what the machine can do, and what calls cost, with nothing of Parkade in it.
// scripts/bench runs it bare for the limits, and bare and preloaded in turn for the hooks' cost.
// `calls` and `idle` print one figure a line, `name value`; the others answer each line of input
// with a line.
//   probe calls            ns a call: launch and memset
//   probe allocations BYTES   for each line of input, ns of an allocation and of a free
//   probe idle             ns a call on a driver that does nothing: one that is gated, and a wait
//   probe link BYTES [GPU] for `out`, `in`, `both`: GB/s of copies from and to pinned host memory
//   probe chunks BYTES     one figure a line: the same in chunks of several sizes
//   probe disk FOLDER BYTES BLOCK DEPTH   for `write`, `read`: GB/s of direct I/O on one file
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/apps/stepper/pattern.h"
#include "tests/bench/disk_limit.h"
#include "tests/bench/link_limit.h"
#include "tests/bench/measure.h"

namespace parkade::bench {

CUcontext Open(int ordinal = 0) {
  CUdevice device;
  CUcontext context;
  Check(cuInit(0), "cuInit");
  Check(cuDeviceGet(&device, ordinal), "cuDeviceGet");
  Check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  Check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  return context;
}

// Submits in batches that end in a wait outside the clock, so that the queue to the GPU never
// fills.
template <typename Call>
double NsPerCall(CUstream stream, Call call) {
  constexpr int kBatches = 40, kCalls = 500;
  double seconds = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    const double begin = Now();
    for (int i = 0; i < kCalls; ++i) call();
    seconds += Now() - begin;
    Check(cuStreamSynchronize(stream), "cuStreamSynchronize");
  }
  return seconds / (kBatches * kCalls) * 1e9;
}

double Median(double* values, size_t count) {
  std::nth_element(values, values + count / 2, values + count);
  return values[count / 2];
}

// For each line of input the medians of some pairs, each call timed by itself. One allocation stays
// beside them, as in any program: without it the driver's own block for small ones would come and
// go with every pair.
void Allocations(size_t bytes) {
  constexpr int kPairs = 21;
  Open();
  CUdeviceptr beside, p;
  Check(cuMemAlloc(&beside, bytes), "cuMemAlloc");
  for (int line = getchar(); line != EOF; line = getchar()) {
    double allocate[kPairs], free[kPairs];
    for (int i = 0; i < kPairs; ++i) {
      const double begin = Now();
      Check(cuMemAlloc(&p, bytes), "cuMemAlloc");
      const double middle = Now();
      Check(cuMemFree(p), "cuMemFree");
      allocate[i] = middle - begin;
      free[i] = Now() - middle;
    }
    printf("%.1f %.1f\n", Median(allocate, kPairs) * 1e9, Median(free, kPairs) * 1e9);
    fflush(stdout);
  }
}

void Calls() {
  Open();
  CUstream stream;
  CUmodule module;
  CUfunction function;
  CUdeviceptr memory;
  Check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  Check(cuModuleLoadData(&module, kAddWordsPtx), "cuModuleLoadData");
  Check(cuModuleGetFunction(&function, module, "add_words"), "cuModuleGetFunction");
  Check(cuMemAlloc(&memory, 4096), "cuMemAlloc");
  uint64_t words = 1;
  uint32_t delta = 1;
  void* arguments[] = {&memory, &words, &delta};
  const auto launch = [&] {
    Check(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr),
          "cuLaunchKernel");
  };
  NsPerCall(stream, launch);  // the first launches load code
  printf("launch_ns %.1f\n", NsPerCall(stream, launch));
  printf("memset_ns %.1f\n", NsPerCall(stream, [&] {
           Check(cuMemsetD8Async(memory, 1, 64, stream), "cuMemsetD8Async");
         }));
}

// Wants the driver that does nothing (build/*/idle) in place of libcuda.
void Idle() {
  constexpr int kCalls = 20'000'000;
  double begin = Now();
  for (int i = 0; i < kCalls; ++i) cuMemsetD8Async(0, 1, 64, nullptr);
  printf("gated_ns %.2f\n", (Now() - begin) / kCalls * 1e9);
  begin = Now();
  for (int i = 0; i < kCalls; ++i) cuStreamQuery(nullptr);
  printf("wait_ns %.2f\n", (Now() - begin) / kCalls * 1e9);
}

}  // namespace parkade::bench

int main(int argc, char** argv) {
  using namespace parkade::bench;
  if (argc == 2 && strcmp(argv[1], "calls") == 0) {
    Calls();
  } else if (argc == 2 && strcmp(argv[1], "idle") == 0) {
    Idle();
  } else if (argc == 3 && strcmp(argv[1], "allocations") == 0) {
    Allocations(strtoull(argv[2], nullptr, 10));
  } else if ((argc == 3 || argc == 4) && strcmp(argv[1], "link") == 0) {
    Open(argc == 4 ? atoi(argv[3]) : 0);
    ServeLink(strtoull(argv[2], nullptr, 10));
  } else if (argc == 3 && strcmp(argv[1], "chunks") == 0) {
    Open();
    PrintChunkedLink(strtoull(argv[2], nullptr, 10));
  } else if (argc == 6 && strcmp(argv[1], "disk") == 0) {
    ServeDisk({argv[2], strtoull(argv[3], nullptr, 10), strtoull(argv[4], nullptr, 10),
               unsigned(strtoul(argv[5], nullptr, 10))});
  } else {
    fprintf(stderr,
            "usage: probe calls | allocations BYTES | idle | link BYTES [GPU] | chunks BYTES | "
            "disk FOLDER BYTES BLOCK DEPTH\n");
    return 64;
  }
  return 0;
}
