// TemporaryFile: an open file without a name, on the file system of the build folder.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>

#include "common/bytes.h"
#include "common/fd.h"

namespace parkade {

inline Fd TemporaryFile(Bytes size) {
  char path[] = "./parkade-unit-XXXXXX";
  Fd fd(mkostemp(path, O_CLOEXEC));
  REQUIRE(fd.get() >= 0);
  REQUIRE(unlink(path) == 0);
  REQUIRE(ftruncate(fd.get(), off_t(size)) == 0);
  return fd;
}

// The same in memory.
inline Fd MemoryFile(Bytes size) {
  Fd fd(memfd_create("parkade-unit", MFD_CLOEXEC));
  REQUIRE(fd.get() >= 0);
  REQUIRE(ftruncate(fd.get(), off_t(size)) == 0);
  return fd;
}

}  // namespace parkade
