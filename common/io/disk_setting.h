// DiskSetting: how requests to the files of one directory are best cut and how many are best under
// way at once; disk_trial.h finds it out.
#pragma once

#include <cstdint>

#include "common/bytes.h"

namespace parkade {

struct DiskSetting {
  Bytes block = 4_MiB;            // bytes of a request; multiple of kDirectAlign
  uint32_t depth = 16;            // requests in flight
  bool registers_memory = false;  // io_uring's registered buffers were faster
};

}  // namespace parkade
