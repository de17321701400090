// A process without libibverbs and NCCL of its own, and modules that bring a copy of them each.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/shim/hooks/levers.h"

namespace {

// What the module at `path` meets when it calls its library.
int CopyMetBy(void* module) {
  auto* copy = reinterpret_cast<int (*)()>(dlsym(module, "registering_user_copy"));
  return copy();
}

}  // namespace

TEST_CASE("each caller meets the copy that it was linked with, and none leaks") {
  CHECK(parkade_test_alive() == 0);
  void* first = dlopen(PARKADE_FIRST_USER, RTLD_NOW | RTLD_LOCAL);
  void* second = dlopen(PARKADE_SECOND_USER, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  CHECK(CopyMetBy(first) == 101);
  CHECK(CopyMetBy(second) == 202);
  // They are nobody else's.
  CHECK(dlsym(RTLD_DEFAULT, "ncclCommAbort") == nullptr);
  dlclose(first);
  dlclose(second);
  CHECK(dlopen(PARKADE_FIRST_USER, RTLD_NOW | RTLD_NOLOAD) == nullptr);
  CHECK(dlopen(PARKADE_SECOND_USER, RTLD_NOW | RTLD_NOLOAD) == nullptr);
}

TEST_CASE("without such a library its functions are not found") {
  for (const char* name : {"ibv_reg_mr", "ncclCommRegister"}) {
    for (void* where : {RTLD_DEFAULT, RTLD_NEXT}) {
      dlerror();
      CHECK(dlsym(where, name) == nullptr);
      CHECK(std::string(dlerror()).find(name) != std::string::npos);
    }
  }
}
