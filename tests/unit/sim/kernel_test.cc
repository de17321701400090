// Kernels: built-in ones, twins of the program's own, and their parameters.
#include "tests/sim/host_kernel.h"
#include "tests/unit/sim/gpu.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

void Sum(const Launch& launch, uint8_t small, uint64_t large, uint64_t* out) {
  if (launch.Touch(out, sizeof *out)) *out = small + large;
}

CUfunction Find(const char* image, const char* name) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  REQUIRE(cuModuleLoadData(&module, image) == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&function, module, name) == CUDA_SUCCESS);
  return function;
}

CUresult Launch1(CUfunction function, void** parameters, void** extra = nullptr) {
  return cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, nullptr, parameters, extra);
}

}  // namespace

extern "C" SIM_EXPORT const SimKernel sim_kernel_test_sum = HostKernel<&Sum>();

TEST_CASE("any image has the built-in kernels") {
  const Gpu gpu;
  const CUfunction fill = Find(".version 7.0", "fill_words");
  const CUfunction add = Find(".version 7.0", "add_words");
  const CUfunction verify = Find(".version 7.0", "verify_words");
  const Buffer words(4096), wrong(8);
  CUdeviceptr p = words.at(), mismatches = wrong.at();
  uint64_t n = 1024;
  uint32_t seed = 5, one = 1;
  REQUIRE(cuMemsetD32(mismatches, 0, 2) == CUDA_SUCCESS);
  void* fill_parameters[] = {&p, &n, &seed};
  void* add_parameters[] = {&p, &n, &one};
  void* verify_parameters[] = {&p, &n, &seed, &mismatches};
  REQUIRE(Launch1(fill, fill_parameters) == CUDA_SUCCESS);
  REQUIRE(Launch1(verify, verify_parameters) == CUDA_SUCCESS);
  REQUIRE(ReadWords(mismatches, 1)[0] == 0);
  REQUIRE(Launch1(add, add_parameters) == CUDA_SUCCESS);
  REQUIRE(Launch1(verify, verify_parameters) == CUDA_SUCCESS);
  REQUIRE(ReadWords(mismatches, 1)[0] == 1024);
}

TEST_CASE("a program's own twin runs, its parameters copied at launch") {
  const Gpu gpu;
  const CUfunction sum = Find("SIMK test_sum", "test_sum");
  const Buffer out(8);
  uint8_t small = 3;
  uint64_t large = 40;
  CUdeviceptr to = out.at();
  void* parameters[] = {&small, &large, &to};
  REQUIRE(Launch1(sum, parameters) == CUDA_SUCCESS);
  large = 1000;
  REQUIRE(ReadWords(to, 1)[0] == 43);

  struct {
    uint8_t small;
    uint64_t large;
    CUdeviceptr to;
  } packed = {7, 50, to};
  size_t bytes = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  REQUIRE(Launch1(sum, nullptr, extra) == CUDA_SUCCESS);
  REQUIRE(ReadWords(to, 1)[0] == 57);
}

TEST_CASE("kernels that nobody has are not found") {
  const Gpu gpu;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  REQUIRE(cuModuleLoadData(&module, "SIMK\nspin_ms\n") == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&function, module, "spin_ms") == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&function, module, "add_words") == CUDA_ERROR_NOT_FOUND);
  REQUIRE(cuModuleLoadData(&module, "SIMK nowhere") == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&function, module, "nowhere") == CUDA_ERROR_NOT_FOUND);
}
