// TemporaryFile: an open file without a name, on the file system of the build folder.
#pragma once

#include <fcntl.h>
#include <stdlib.h>

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

}  // namespace parkade
