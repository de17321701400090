// A program that tests weak references to the names that the shim exports, where neither the driver
// nor libibverbs nor NCCL is there.
#include <dlfcn.h>
#include <errno.h>

#include <catch2/catch.hpp>

extern "C" {
[[gnu::weak]] void* ibv_reg_mr(void* pd, void* at, size_t bytes, int access);
[[gnu::weak]] void* ibv_reg_mr_iova(void* pd, void* at, size_t bytes, uint64_t iova, int access);
[[gnu::weak]] void* ibv_reg_mr_iova2(void* pd, void* at, size_t bytes, uint64_t iova,
                                     unsigned access);
[[gnu::weak]] int ibv_rereg_mr(void* mr, int flags, void* pd, void* at, size_t bytes, int access);
[[gnu::weak]] int ibv_dereg_mr(void* mr);
[[gnu::weak]] int ncclCommRegister(void* comm, void* at, size_t bytes, void** handle);
[[gnu::weak]] int ncclCommDeregister(void* comm, void* handle);
[[gnu::weak]] int ncclCommWindowRegister(void* comm, void* at, size_t bytes, void** window,
                                         int flags);
[[gnu::weak]] int ncclCommWindowDeregister(void* comm, void* window);
[[gnu::weak]] int ncclCommDestroy(void* comm);
[[gnu::weak]] int ncclCommAbort(void* comm);
[[gnu::weak]] int ncclCommInitRank(void** comm, int ranks, const char* id, int rank);
[[gnu::weak]] int cuInit(unsigned flags);
[[gnu::weak]] int cuMemAlloc_v2(unsigned long long* out, size_t bytes);
}

namespace {
constexpr int kInvalidUsage = 5;  // ncclInvalidUsage
constexpr int kStubLibrary = 34;  // CUDA_ERROR_STUB_LIBRARY
char memory[64];
}  // namespace

TEST_CASE("a registration without its library fails, and changes nothing") {
  errno = 0;
  CHECK(ibv_reg_mr(nullptr, memory, sizeof memory, 0) == nullptr);
  CHECK(errno == ENOSYS);
  CHECK(ibv_reg_mr_iova(nullptr, memory, sizeof memory, 0, 0) == nullptr);
  CHECK(ibv_reg_mr_iova2(nullptr, memory, sizeof memory, 0, 0) == nullptr);
  CHECK(ibv_rereg_mr(memory, 1, nullptr, memory, sizeof memory, 0) == ENOSYS);
  CHECK(ibv_dereg_mr(memory) == ENOSYS);
  void* handle = memory;
  CHECK(ncclCommRegister(memory, memory, sizeof memory, &handle) == kInvalidUsage);
  CHECK(ncclCommWindowRegister(memory, memory, sizeof memory, &handle, 0) == kInvalidUsage);
  CHECK(handle == memory);
  CHECK(ncclCommDeregister(memory, memory) == kInvalidUsage);
  CHECK(ncclCommWindowDeregister(memory, memory) == kInvalidUsage);
  CHECK(ncclCommDestroy(memory) == kInvalidUsage);
  CHECK(ncclCommAbort(memory) == kInvalidUsage);
}

TEST_CASE("names that the shim does not export, and those that are looked up, are not there") {
  auto* const not_ours = &ncclCommInitRank;
  CHECK(not_ours == nullptr);
  for (const char* name : {"ibv_reg_mr", "ibv_dereg_mr", "ncclCommRegister", "ncclCommDestroy"}) {
    INFO(name);
    CHECK(dlsym(RTLD_DEFAULT, name) == nullptr);
  }
}

TEST_CASE("a driver call without the driver fails") {
  unsigned long long at = 1;
  REQUIRE(dlopen("libcuda.so.1", RTLD_LAZY) == nullptr);
  CHECK(cuInit(0) == kStubLibrary);
  CHECK(cuMemAlloc_v2(&at, 4096) == kStubLibrary);
  CHECK(at == 1);
}
