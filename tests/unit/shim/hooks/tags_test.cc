// Tags that threads push, and which memory bears them.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "shim/include/parkade/parkade.h"
#include "tests/unit/shim/hooks/context.h"
#include "tests/unit/shim/hooks/levers.h"

namespace {

constexpr size_t kMiB = size_t(1) << 20;

std::string TagAt(CUdeviceptr base) {
  char tag[PARKADE_TAG_BYTES] = "?";
  CHECK(parkade_test_tag_of(base, tag) == 0);
  return tag;
}

std::string TagOfNew(size_t bytes = 1000) {
  CUdeviceptr p = 0;
  REQUIRE(cuMemAlloc_v2(&p, bytes) == CUDA_SUCCESS);
  const std::string tag = TagAt(p);
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
  return tag;
}

}  // namespace

TEST_CASE("memory bears the innermost tag of its thread, of any size") {
  Context context;
  for (const size_t bytes : {size_t(1), 2 * kMiB, 40 * kMiB}) {
    CHECK(TagOfNew(bytes) == "default");
    REQUIRE(parkade_tag_push("weights") == PARKADE_OK);
    CHECK(TagOfNew(bytes) == "weights");
    REQUIRE(parkade_tag_push("kv_cache") == PARKADE_OK);
    CHECK(TagOfNew(bytes) == "kv_cache");
    REQUIRE(parkade_tag_pop() == PARKADE_OK);
    CHECK(TagOfNew(bytes) == "weights");
    REQUIRE(parkade_tag_pop() == PARKADE_OK);
    CHECK(TagOfNew(bytes) == "default");
  }
}

TEST_CASE("by other doors too, and memory keeps its tag") {
  Context context;
  REQUIRE(parkade_tag_push("grad_buffer") == PARKADE_OK);
  CUdeviceptr rows = 0, at = 0;
  size_t pitch = 0;
  REQUIRE(cuMemAllocPitch_v2(&rows, &pitch, 100, 10, 4) == CUDA_SUCCESS);
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(cuMemCreate(&handle, 2 * kMiB, &prop, 0) == CUDA_SUCCESS);
  REQUIRE(parkade_tag_pop() == PARKADE_OK);
  REQUIRE(cuMemAddressReserve(&at, 2 * kMiB, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(at, 2 * kMiB, 0, handle, 0) == CUDA_SUCCESS);
  const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  REQUIRE(cuMemSetAccess(at, 2 * kMiB, &access, 1) == CUDA_SUCCESS);
  CHECK(TagAt(rows) == "grad_buffer");
  CHECK(TagAt(at) == "grad_buffer");
  CHECK(cuMemUnmap(at, 2 * kMiB) == CUDA_SUCCESS);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(cuMemAddressFree(at, 2 * kMiB) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(rows) == CUDA_SUCCESS);
}

TEST_CASE("each thread has tags of its own") {
  Context context;
  REQUIRE(parkade_tag_push("weights") == PARKADE_OK);
  std::thread([&] {
    REQUIRE(cuCtxSetCurrent(context.get()) == CUDA_SUCCESS);
    CHECK(TagOfNew() == "default");
    CHECK(parkade_tag_pop() == PARKADE_E_STATE);
  }).join();
  CHECK(TagOfNew() == "weights");
  REQUIRE(parkade_tag_pop() == PARKADE_OK);
}

TEST_CASE("what is no tag is refused and changes nothing") {
  Context context;
  const std::string longest(PARKADE_TAG_BYTES - 1, 'x');
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("a,b"), std::string("a=b"),
        std::string("caf\xc3\xa9"), std::string("a\nb"), longest + "x"}) {
    INFO(bad);
    CHECK(parkade_tag_push(bad.c_str()) == PARKADE_E_INVAL);
  }
  CHECK(parkade_tag_push(nullptr) == PARKADE_E_INVAL);
  CHECK(parkade_tag_pop() == PARKADE_E_STATE);
  REQUIRE(parkade_tag_push(longest.c_str()) == PARKADE_OK);
  CHECK(TagOfNew() == longest);
  for (int i = 1; i < PARKADE_TAG_DEPTH; ++i)
    REQUIRE(parkade_tag_push("a-b.c:d/E_9") == PARKADE_OK);
  CHECK(parkade_tag_push("deeper") == PARKADE_E_NOSPACE);
  CHECK(TagOfNew() == "a-b.c:d/E_9");
  for (int i = 0; i < PARKADE_TAG_DEPTH; ++i) REQUIRE(parkade_tag_pop() == PARKADE_OK);
  CHECK(parkade_tag_pop() == PARKADE_E_STATE);
  CHECK(TagOfNew() == "default");
}
