// Measures the link.
#include "tests/bench/link_limit.h"

#include <cuda.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/bench/measure.h"

namespace parkade::bench {
namespace {

template <typename Copy>
double BestGbps(size_t bytes, Copy copy) {
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const double begin = Now();
    Check(copy(), "copy");
    Check(cuStreamSynchronize(nullptr), "cuStreamSynchronize");
    best = std::max(best, static_cast<double>(bytes) / (Now() - begin) * 1e-9);
  }
  return best;
}

}  // namespace

void PrintLinkLimit(size_t bytes) {
  void* host = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (host == MAP_FAILED) Fail("mmap", strerror(errno));
  madvise(host, bytes, MADV_HUGEPAGE);
  memset(host, 1, bytes);
  Check(cuMemHostRegister(host, bytes, 0), "cuMemHostRegister");
  CUdeviceptr device;
  Check(cuMemAlloc(&device, bytes), "cuMemAlloc");
  printf("device_to_host_gbps %.2f\n",
         BestGbps(bytes, [&] { return cuMemcpyDtoHAsync(host, device, bytes, nullptr); }));
  printf("host_to_device_gbps %.2f\n",
         BestGbps(bytes, [&] { return cuMemcpyHtoDAsync(device, host, bytes, nullptr); }));
  cuMemFree(device);
  cuMemHostUnregister(host);
  munmap(host, bytes);
}

}  // namespace parkade::bench
