// A profiler preloaded beside the shim, in either order, in a program that is linked with the
// driver or opens it: each call meets both and the driver once, and nothing slips past the shim.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>
#include <dlfcn.h>

#include <catch2/catch.hpp>

#include "tests/unit/shim/hooks/file_of.h"

extern "C" int profiler_calls();

namespace {

constexpr char kShim[] = "libparkade.so";

using Alloc = decltype(&cuMemAlloc_v2);
using Resolver = decltype(&cuGetProcAddress_v2);

// Of the driver's file, whoever linked it or not.
void* Driver() {
  static void* const driver = dlopen(PARKADE_FAKE_LIBCUDA, RTLD_LAZY | RTLD_LOCAL);
  REQUIRE(driver != nullptr);
  return driver;
}

int DriverCalls(const char* name) {
  auto* calls = reinterpret_cast<int (*)(const char*)>(dlsym(Driver(), "fake_calls"));
  REQUIRE(calls != nullptr);
  return calls(name);
}

void* Ask(const char* symbol, int version) {
  auto* resolver = reinterpret_cast<Resolver>(dlsym(Driver(), "cuGetProcAddress_v2"));
  REQUIRE(resolver != nullptr);
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  REQUIRE(resolver(symbol, &function, version, 0, &status) == CUDA_SUCCESS);
  return function;
}

void AllocateOnce(Alloc alloc) {
  REQUIRE(alloc != nullptr);
  const int profiled = profiler_calls();
  const int arrived = DriverCalls("cuMemAlloc_v2");
  CUdeviceptr p = 0;
  CHECK(alloc(&p, 64) == CUDA_SUCCESS);
  CHECK(p == 0x7000);
  CHECK(profiler_calls() == profiled + 1);
  CHECK(DriverCalls("cuMemAlloc_v2") == arrived + 1);
}

}  // namespace

TEST_CASE("a call that both preloads know meets each of them once, by dlsym") {
  AllocateOnce(reinterpret_cast<Alloc>(dlsym(Driver(), "cuMemAlloc_v2")));
}

TEST_CASE("a call that both preloads know meets each of them once, by cuGetProcAddress") {
  AllocateOnce(reinterpret_cast<Alloc>(Ask("cuMemAlloc", 13000)));
}

#if defined(PARKADE_LINKED)
TEST_CASE("a call that both preloads know meets each of them once, by the linked symbol") {
  AllocateOnce(&cuMemAlloc_v2);
}
#endif

TEST_CASE("every route leads to the same one of the two first") {
  const std::string first = FileOf(dlsym(Driver(), "cuMemAlloc_v2"));
  CHECK((first == kShim || first == "libprofiler_preload.so"));
  CHECK(FileOf(Ask("cuMemAlloc", 13000)) == first);
}

TEST_CASE("what the profiler leaves alone comes from the shim by every route") {
  CHECK(FileOf(dlsym(Driver(), "cuMemcpyHtoD_v2")) == kShim);
  CHECK(FileOf(Ask("cuMemcpyHtoD", 13000)) == kShim);
  CHECK(FileOf(Ask("cuInit", 13000)) == kShim);
  CHECK(FileOf(dlsym(RTLD_DEFAULT, "cuInit")) == kShim);
  CHECK(FileOf(dlsym(RTLD_DEFAULT, "dlopen")) == "libc.so.6");
}
