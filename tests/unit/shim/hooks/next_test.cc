// Two interposers in one process, in either order: RTLD_NEXT means "behind me" for each.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/unit/shim/hooks/fake_libcuda.h"
#include "tests/unit/shim/hooks/file_of.h"

TEST_CASE("another preloaded library finds what stands behind it, not itself") {
  CHECK(getppid() > 0);
  CHECK(FileOf(&getppid) == "libnext_preload.so");
}

TEST_CASE("a driver call passes each interposer at most once and the driver once") {
  const int before = fake_calls("cuMemAlloc_v2");
  CUdeviceptr p = 0;
  CHECK(cuMemAlloc(&p, 10) == CUDA_SUCCESS);
  CHECK(fake_calls("cuMemAlloc_v2") == before + 1);
}
