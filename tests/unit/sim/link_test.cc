// A link slower than memory: copies take the time that the rate says, in each direction apart.
#include <chrono>

#include "tests/unit/sim/gpu.h"
#include "tests/unit/sim/streams.h"

using namespace parkade;
using namespace parkade::sim;
using Clock = std::chrono::steady_clock;

namespace {

double Ms(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

}  // namespace

TEST_CASE("host copies keep to the rate of their direction, over all streams") {
  const Gpu gpu;
  const OwnStream stream, other;
  constexpr Bytes kBytes = 20'000'000;  // 100 ms at the rate of 0.2 GB/s
  void *out = nullptr, *in = nullptr;
  REQUIRE(cuMemHostAlloc(&out, kBytes, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemHostAlloc(&in, kBytes, 0) == CUDA_SUCCESS);
  const Buffer first(kBytes), second(kBytes);
  auto start = Clock::now();
  REQUIRE(cuMemcpyDtoHAsync(out, first.at(), kBytes, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
  REQUIRE(cuMemcpyHtoDAsync(second.at(), in, kBytes, other) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  REQUIRE(Ms(start) >= 99);
  REQUIRE(cuStreamSynchronize(other) == CUDA_SUCCESS);
  start = Clock::now();
  REQUIRE(cuMemcpyHtoDAsync(first.at(), in, kBytes, stream) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyHtoDAsync(second.at(), in, kBytes, other) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  REQUIRE(Ms(start) >= 199);
  REQUIRE(cuMemFreeHost(out) == CUDA_SUCCESS);
  REQUIRE(cuMemFreeHost(in) == CUDA_SUCCESS);
}
