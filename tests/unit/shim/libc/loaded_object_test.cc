// LoadedObject against what the loader itself answers for the same names.
#include "shim/libc/loaded_object.h"

#include <dlfcn.h>

#include <catch2/catch.hpp>

#include "shim/libc/late.h"

using namespace parkade::shim;

TEST_CASE("a symbol is found where the loader finds it") {
  const auto libc = LoadedObject::ByFileName("libc.so.6");
  REQUIRE(libc);
  void* handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  REQUIRE(handle != nullptr);
  for (const char* name : {"getpid", "pthread_create", "dlsym", "dlopen", "qsort", "environ"}) {
    INFO(name);
    CHECK(libc->Find(name) == dlsym(handle, name));
    CHECK(libc->Find(name) != nullptr);
  }
  dlclose(handle);
}

TEST_CASE("a name that a file does not export is absent") {
  const auto libc = LoadedObject::ByFileName("libc.so.6");
  REQUIRE(libc);
  CHECK(libc->Find("cuInit") == nullptr);
  CHECK(libc->Find("") == nullptr);
  CHECK_FALSE(LoadedObject::ByFileName("libno-such-library"));
}

TEST_CASE("an address belongs to the file that is mapped there") {
  const auto libc = LoadedObject::ByFileName("libc.so.6");
  void* getpid_at = libc->Find("getpid");
  CHECK(libc->Contains(getpid_at));
  const auto found = LoadedObject::ByAddress(getpid_at);
  REQUIRE(found);
  CHECK(FileName(found->path()) == "libc.so.6");
  int on_stack = 0;
  CHECK_FALSE(libc->Contains(&on_stack));
}

TEST_CASE("file names are what stands behind the last slash") {
  CHECK(FileName("/usr/lib/libcuda.so.1") == "libcuda.so.1");
  CHECK(FileName("libcuda.so.1") == "libcuda.so.1");
  CHECK(FileName("") == "");
}

TEST_CASE("the C library is searched without the shim's own dlsym") {
  CHECK(FindInLibc("dlvsym") == dlsym(RTLD_DEFAULT, "dlvsym"));
  CHECK(FindInLibc("no_such_function") == nullptr);
  CHECK(LateDlopen("libno-such-library.so", RTLD_LAZY) == nullptr);
}
