// The three routes to the driver, seen by a program that links libcuda and has the shim preloaded.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>
#include <dlfcn.h>

#include <catch2/catch.hpp>

#include "tests/unit/shim/hooks/fake_libcuda.h"
#include "tests/unit/shim/hooks/file_of.h"

namespace {

constexpr char kShim[] = "libparkade.so";
constexpr char kDriver[] = "libcuda.so.1";

void* Open(const char* file) {
  void* handle = dlopen(file, RTLD_LAZY);
  REQUIRE(handle != nullptr);
  return handle;
}

// The shim's wrapper of `name`: what the program's own calls are bound to.
void* Wrapper(const char* name) { return dlsym(RTLD_DEFAULT, name); }

void* Ask(const char* symbol, int version, cuuint64_t flags) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  REQUIRE(cuGetProcAddress_v2(symbol, &function, version, flags, &status) == CUDA_SUCCESS);
  return function;
}

template <typename F>
void* Address(F* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

TEST_CASE("a call by the exported symbol arrives at the driver, once") {
  CHECK(FileOf(&cuMemAlloc_v2) == kShim);
  const int before = fake_calls("cuMemAlloc_v2");
  CUdeviceptr p = 0;
  CHECK(cuMemAlloc_v2(&p, 100) == CUDA_SUCCESS);
  CHECK(p == 0x7000);
  CHECK(fake_calls("cuMemAlloc_v2") == before + 1);
}

TEST_CASE("dlsym on the driver's handle gives the wrapper of that very name") {
  void* driver = Open(kDriver);
  CHECK(dlsym(driver, "cuMemAlloc_v2") == Address(&cuMemAlloc_v2));
  CHECK(dlsym(driver, "cuMemAlloc") == Address(&cuMemAlloc));
  CHECK(dlsym(driver, "cuMemcpyHtoD_v2_ptds") == Address(&cuMemcpyHtoD_v2_ptds));
  CHECK(dlsym(RTLD_DEFAULT, "cuInit") == Address(&cuInit));
  CHECK(dlsym(RTLD_NEXT, "cuInit") == Address(&cuInit));
  dlclose(driver);
}

TEST_CASE("the driver is the same one by whatever name it is opened") {
  const std::string path = PARKADE_FAKE_LIBCUDA;
  const std::string folder = path.substr(0, path.rfind('/'));
  // "libcuda.so" alone is found by the library path, which a running program cannot change.
  for (const std::string& name : {std::string("libcuda.so.1"), path, folder + "/libcuda.so",
                                  folder + "/../fake/libcuda.so.1"}) {
    for (int flags : {RTLD_LAZY | RTLD_LOCAL, RTLD_NOW | RTLD_GLOBAL}) {
      INFO(name);
      void* driver = dlopen(name.c_str(), flags);
      REQUIRE(driver != nullptr);
      CHECK(dlsym(driver, "cuMemAlloc_v2") == Address(&cuMemAlloc_v2));
      CHECK(dlsym(driver, "cuGetProcAddress_v2") == Address(&cuGetProcAddress_v2));
      CHECK(dlsym(driver, "cuMemAllocFoo") == nullptr);
      dlclose(driver);
    }
  }
}

#if !defined(PARKADE_SANITIZED)  // the runtimes of sanitizers have a dlsym of their own in between
TEST_CASE("libraries bound to the dlsym of either C library meet the shim") {
  void* driver = Open(kDriver);
  for (const char* file : {PARKADE_DLSYM_OLD, PARKADE_DLSYM_NEW}) {
    INFO(file);
    auto* look_up =
        reinterpret_cast<void* (*)(void*, const char*)>(dlsym(Open(file), "look_up_by_version"));
    REQUIRE(look_up != nullptr);
    CHECK(look_up(driver, "cuMemAlloc_v2") == Address(&cuMemAlloc_v2));
    CHECK(look_up(RTLD_NEXT, "cuMemAlloc_v2") == Address(&cuMemAlloc_v2));
    CHECK(look_up(RTLD_DEFAULT, "cuMemAlloc_v2") == Address(&cuMemAlloc_v2));
    CHECK(FileOf(look_up(RTLD_DEFAULT, "getpid")) == "libc.so.6");
  }
  dlclose(driver);
}
#endif

TEST_CASE("dlvsym answers as dlsym does") {
  void* driver = Open(kDriver);
  void* found = dlvsym(driver, "cuInit", "LIBCUDA_1");
  CHECK((found == nullptr || found == Address(&cuInit)));
  CHECK(FileOf(dlvsym(RTLD_DEFAULT, "dlopen", PARKADE_FIRST_GLIBC)) == "libc.so.6");
  dlclose(driver);
}

TEST_CASE("names that are not the driver's come from where they are") {
  void* other = Open(PARKADE_CUDNN_LIKE);
  for (const char* name : {"cudnnFoo", "cublasFoo", "cuFileFoo", "cu", "cuMemAllocFoo"}) {
    INFO(name);
    CHECK(FileOf(dlsym(other, name)) == "libcudnn_like.so");
  }
  CHECK(dlsym(other, "cuInit") == nullptr);
  CHECK(dlerror() != nullptr);
  dlclose(other);
}

TEST_CASE("a name that this driver is too old for is not found by any door") {
  void* driver = Open(kDriver);
  void* shim = dlopen(kShim, RTLD_LAZY | RTLD_NOLOAD);
  for (void* handle : {driver, shim, static_cast<void*>(RTLD_DEFAULT)}) {
    if (handle == nullptr && handle != RTLD_DEFAULT) continue;
    dlerror();
    CHECK(dlsym(handle, "cuStreamGetDevice") == nullptr);
    CHECK(dlerror() != nullptr);
  }
  dlclose(driver);
}

TEST_CASE("libcuda's look-up of its own function gives its own function") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  CHECK(fake_own_lookup() != nullptr);
  CHECK(FileOf(fake_own_lookup()) == kDriver);
}

TEST_CASE("cuGetProcAddress gives the wrapper of the form that version and flags mean") {
  for (int version : {3020, 11030, 13000}) {
    for (cuuint64_t flags : {0, 1, 2}) {
      INFO(version << " " << flags);
      CHECK(Ask("cuMemAlloc", version, flags) == Wrapper("cuMemAlloc_v2"));
    }
  }
  CHECK(Ask("cuMemAlloc", 2000, 0) == Wrapper("cuMemAlloc"));
  CHECK(Ask("cuMemcpyHtoD", 13000, 0) == Wrapper("cuMemcpyHtoD_v2"));
  CHECK(Ask("cuMemcpyHtoD", 13000, 1) == Wrapper("cuMemcpyHtoD_v2"));
  CHECK(Ask("cuMemcpyHtoD", 13000, 2) == Wrapper("cuMemcpyHtoD_v2_ptds"));
  CHECK(Ask("cuMemcpyHtoD", 3020, 2) == Wrapper("cuMemcpyHtoD_v2"));
}

TEST_CASE("cuGetProcAddress asked for itself stays hooked") {
  CHECK(Ask("cuGetProcAddress", 11030, 0) == Wrapper("cuGetProcAddress"));
  CHECK(Ask("cuGetProcAddress", 12000, 0) == Wrapper("cuGetProcAddress_v2"));
  void* again = nullptr;
  auto* resolver = reinterpret_cast<decltype(&cuGetProcAddress)>(Ask("cuGetProcAddress", 11030, 0));
  REQUIRE(resolver("cuInit", &again, 13000, 0) == CUDA_SUCCESS);
  CHECK(again == Wrapper("cuInit"));
}

TEST_CASE("the runtime's probe with an empty name and no status is answered by the driver") {
  void* function = Address(&cuInit);
  CHECK(cuGetProcAddress_v2("", &function, 0, 0, nullptr) == CUDA_ERROR_NOT_FOUND);
  CHECK(function == nullptr);
  CHECK(cuGetProcAddress_v2("cuInit", &function, 13000, 0, nullptr) == CUDA_SUCCESS);
  CHECK(function == Wrapper("cuInit"));
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  CHECK(cuGetProcAddress_v2("cuNoSuch", &function, 13000, 0, &status) == CUDA_SUCCESS);
  CHECK(function == nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST_CASE("an inner twin of an exported function is recognised by name, version and flags") {
  CHECK(Ask("cuDeviceGetCount", 13000, 0) == Wrapper("cuDeviceGetCount"));
}

TEST_CASE("a form newer than the headers passes through, for its arguments are not known") {
  CHECK(FileOf(Ask("cuNotYetInvented", 13000, 0)) == kDriver);
  CHECK(FileOf(Ask("cuMemAlloc", 99000, 0)) == kDriver);
  void* driver = Open(kDriver);
  CHECK(FileOf(dlsym(driver, "cuNotYetInvented")) == kDriver);
  dlclose(driver);
}
