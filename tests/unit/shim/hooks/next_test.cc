// Two interposers in one process, in either order: RTLD_NEXT means "behind me" for each.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/unit/shim/hooks/fake_libcuda.h"
#include "tests/unit/shim/hooks/file_of.h"

extern "C" int next_preload_calls;

TEST_CASE("another preloaded library finds what stands behind it, not itself") {
  CHECK(getppid() > 0);
  CHECK(FileOf(&getppid) == "libnext_preload.so");
}

TEST_CASE("a driver call passes each interposer once and the driver once") {
  const int driver = fake_calls("cuMemAlloc_v2");
  const int interposer = next_preload_calls;
  CUdeviceptr p = 0;
  CHECK(cuMemAlloc(&p, 10) == CUDA_SUCCESS);
  CHECK(fake_calls("cuMemAlloc_v2") == driver + 1);
  CHECK(next_preload_calls == interposer + 1);
}

TEST_CASE("an interposer that asks the driver for its next does not get the shim again") {
  const int driver = fake_calls("cuMemcpyHtoD_v2");
  const int interposer = next_preload_calls;
  CHECK(cuMemcpyHtoD(0, nullptr, 0) == CUDA_SUCCESS);
  CHECK(fake_calls("cuMemcpyHtoD_v2") == driver + 1);
  CHECK(next_preload_calls == interposer + 1);
}
