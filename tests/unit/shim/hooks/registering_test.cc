// Memory that a network card or NCCL registers, under the hooks and a stand-in for both libraries.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>

#include <catch2/catch.hpp>

#include "common/bytes.h"
#include "tests/unit/shim/hooks/context.h"
#include "tests/unit/shim/hooks/levers.h"

extern "C" {
struct ibv_mr;
struct ncclComm;
ibv_mr* ibv_reg_mr(void* pd, void* at, size_t bytes, int access);
ibv_mr* ibv_reg_mr_iova(void* pd, void* at, size_t bytes, uint64_t iova, int access);
ibv_mr* ibv_reg_mr_iova2(void* pd, void* at, size_t bytes, uint64_t iova, unsigned access);
int ibv_rereg_mr(ibv_mr* mr, int flags, void* pd, void* at, size_t bytes, int access);
int ibv_dereg_mr(ibv_mr* mr);
int ncclCommRegister(ncclComm* comm, void* at, size_t bytes, void** handle);
int ncclCommDeregister(ncclComm* comm, void* handle);
int ncclCommWindowRegister(ncclComm* comm, void* at, size_t bytes, void** window, int flags);
int ncclCommWindowDeregister(ncclComm* comm, void* window);
int ncclCommDestroy(ncclComm* comm);
int ncclCommAbort(ncclComm* comm);
ncclComm* registering_like_comm();
void registering_like_fail(ncclComm* comm, int failing);
}

using namespace parkade;

namespace {

constexpr Bytes kLarge = 64_MiB;

// Native-looking memory of the heap's.
class Buffer {
 public:
  explicit Buffer(Bytes bytes) { REQUIRE(cuMemAlloc_v2(&ptr_, bytes) == CUDA_SUCCESS); }
  ~Buffer() { CHECK(cuMemFree_v2(ptr_) == CUDA_SUCCESS); }
  void* at(Bytes offset = 0) const { return reinterpret_cast<void*>(ptr_ + offset); }

 private:
  CUdeviceptr ptr_ = 0;
};

uint64_t Held() { return parkade_test_held_bytes(); }

template <typename F>
F* As(void* found, F*) {
  return reinterpret_cast<F*>(found);
}

}  // namespace

TEST_CASE("memory registered with a network card is held until it is deregistered") {
  Context context;
  Buffer a(kLarge), b(kLarge);
  REQUIRE(Held() == 0);
  ibv_mr* whole = ibv_reg_mr(nullptr, a.at(), kLarge, 0);
  CHECK(Held() == kLarge);
  CHECK(parkade_test_ledger_says("memory registered for RDMA (ibv_reg_mr) stays in HBM"));
  ibv_mr* part = ibv_reg_mr_iova(nullptr, a.at(4096), 4096, 0, 0);
  ibv_mr* other = ibv_reg_mr_iova2(nullptr, b.at(4096), 1, 0, 0);
  CHECK(Held() == 2 * kLarge);
  CHECK(ibv_dereg_mr(whole) == 0);
  CHECK(Held() == 2 * kLarge);
  CHECK(ibv_dereg_mr(part) == 0);
  CHECK(Held() == kLarge);
  // What could not be deregistered is known to the card as before.
  CHECK(ibv_dereg_mr(other) == EBUSY);
  CHECK(Held() == kLarge);
  CHECK(ibv_rereg_mr(other, 1, nullptr, a.at(), 0, 0) == EINVAL);
  CHECK(Held() == kLarge);
  CHECK(ibv_rereg_mr(other, 1, nullptr, a.at(), kLarge, 0) == 0);
  CHECK(Held() == kLarge);
  CHECK(ibv_rereg_mr(other, 4, nullptr, nullptr, 2, 0) == 0);  // another protection alone
  CHECK(Held() == kLarge);
  CHECK(ibv_dereg_mr(other) == 0);
  CHECK(Held() == 0);
}

TEST_CASE("what fails, what is the host's and what the card pages in itself hold nothing") {
  Context context;
  Buffer a(kLarge);
  errno = 0;
  CHECK(ibv_reg_mr(nullptr, a.at(), 0, 0) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(Held() == 0);
  char host[64];
  ibv_mr* of_host = ibv_reg_mr(nullptr, host, sizeof host, 0);
  CHECK(Held() == 0);
  CHECK(ibv_dereg_mr(of_host) == 0);
  ibv_mr* of_all = ibv_reg_mr(nullptr, nullptr, SIZE_MAX, 1 << 6);
  CHECK(Held() == 0);
  CHECK(ibv_dereg_mr(of_all) == 0);
  ibv_mr* moved = ibv_reg_mr(nullptr, a.at(), kLarge, 0);
  CHECK(Held() == kLarge);
  CHECK(ibv_rereg_mr(moved, 1, nullptr, nullptr, SIZE_MAX, 1 << 6) == 0);
  CHECK(Held() == 0);
  CHECK(ibv_dereg_mr(moved) == 0);
}

TEST_CASE("a block of a slab holds its slab, and memory that was freed is held no longer") {
  Context context;
  ibv_mr* mr = nullptr;
  {
    Buffer small(4096);
    mr = ibv_reg_mr(nullptr, small.at(), 4096, 0);
    CHECK(Held() >= 4096);
  }
  CHECK(Held() == 0);
  CHECK(ibv_dereg_mr(mr) == 0);
  Buffer after(4096);
  CHECK(Held() == 0);
}

TEST_CASE("memory that the program maps itself is held likewise") {
  Context context;
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle handle;
  CUdeviceptr at = 0;
  const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  REQUIRE(cuMemCreate(&handle, kLarge, &prop, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressReserve(&at, kLarge, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(at, kLarge, 0, handle, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemSetAccess(at, kLarge, &access, 1) == CUDA_SUCCESS);
  auto* memory = reinterpret_cast<void*>(at);
  ibv_mr* first = ibv_reg_mr(nullptr, memory, kLarge, 0);
  ibv_mr* second = ibv_reg_mr(nullptr, memory, 4096, 0);
  CHECK(Held() == kLarge);
  CHECK(ibv_dereg_mr(first) == 0);
  CHECK(Held() == kLarge);
  CHECK(ibv_dereg_mr(second) == 0);
  CHECK(Held() == 0);
  CHECK(cuMemUnmap(at, kLarge) == CUDA_SUCCESS);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(cuMemAddressFree(at, kLarge) == CUDA_SUCCESS);
}

TEST_CASE("memory registered with NCCL is held until it is deregistered or its communicator ends") {
  Context context;
  Buffer a(kLarge), b(kLarge);
  ncclComm* comm = registering_like_comm();
  void *handle = nullptr, *again = nullptr, *window = &comm;
  CHECK(ncclCommRegister(comm, a.at(), kLarge, &handle) == 0);
  CHECK(ncclCommRegister(comm, a.at(), kLarge, &again) == 0);
  REQUIRE(handle == again);
  CHECK(Held() == kLarge);
  CHECK(parkade_test_ledger_says("memory registered with NCCL"));
  CHECK(ncclCommDeregister(comm, handle) == 0);
  CHECK(Held() == kLarge);
  registering_like_fail(comm, 1);
  CHECK(ncclCommDeregister(comm, again) == 3);
  CHECK(ncclCommRegister(comm, b.at(), kLarge, &again) == 3);
  CHECK(ncclCommWindowRegister(comm, b.at(), kLarge, &window, 0) == 3);
  CHECK(window == &comm);  // untouched
  CHECK(ncclCommDestroy(comm) == 3);
  CHECK(Held() == kLarge);
  registering_like_fail(comm, 0);
  CHECK(ncclCommDeregister(comm, handle) == 0);
  CHECK(Held() == 0);

  ncclComm* other = registering_like_comm();
  CHECK(ncclCommWindowRegister(comm, a.at(), kLarge, &window, 0) == 0);
  CHECK(ncclCommRegister(comm, a.at(), kLarge, &handle) == 0);
  CHECK(ncclCommRegister(other, b.at(), kLarge, &handle) == 0);
  CHECK(Held() == 2 * kLarge);
  registering_like_fail(comm, 1);
  CHECK(ncclCommDestroy(comm) == 3);
  CHECK(Held() == 2 * kLarge);
  registering_like_fail(comm, 0);
  CHECK(ncclCommDestroy(comm) == 0);
  CHECK(Held() == kLarge);
  CHECK(ncclCommAbort(other) == 0);
  CHECK(Held() == 0);
}

TEST_CASE(
    "every way to look a registration up leads to the shim, but for other copies and versions") {
  Context context;
  Buffer a(kLarge);
  void* library = dlopen(PARKADE_REGISTERING_LIKE, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  auto holds = [&](void* found) {
    auto* reg_mr = As(found, &ibv_reg_mr);
    REQUIRE(reg_mr != nullptr);
    ibv_mr* mr = reg_mr(nullptr, a.at(), kLarge, 0);
    const bool held = Held() == kLarge;
    CHECK(ibv_dereg_mr(mr) == 0);
    return held;
  };
  CHECK(holds(dlsym(RTLD_DEFAULT, "ibv_reg_mr")));
  CHECK(holds(dlsym(library, "ibv_reg_mr")));
  CHECK(holds(dlvsym(library, "ibv_reg_mr", "IBVERBS_1.1")));
  CHECK_FALSE(holds(dlvsym(library, "ibv_reg_mr", "IBVERBS_1.0")));
  CHECK(dlvsym(library, "ibv_reg_mr", "IBVERBS_2.0") == nullptr);
  CHECK(dlsym(library, "ibv_reg_dmabuf_mr") == nullptr);
  void* copy = dlopen(PARKADE_REGISTERING_COPY, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(copy != nullptr);
  CHECK_FALSE(holds(dlsym(copy, "ibv_reg_mr")));
  CHECK(dlsym(copy, "ncclCommRegister") != dlsym(library, "ncclCommRegister"));
  dlclose(copy);
  dlclose(library);
}
