// DiskTrial: finds out within a fraction of a second how the files of one directory are best used,
// by writing and reading one.
#pragma once

#include <memory>

#include "common/fd.h"
#include "common/io/disk_setting.h"
#include "common/io/io_engine.h"

namespace parkade {

struct DiskRates {
  DiskSetting setting;
  // With that setting; 0 where the page cache stands before the disk and its rate cannot be seen.
  double write_gbps = 0;
  double read_gbps = 0;
  bool direct = false;  // transfers go round the page cache: looked up there, not believed
  bool io_uring = false;
};

// Room that a trial needs in the file.
constexpr Bytes kTrialBytes = 64_MiB;

// Tries on `file`, empty, open for reading and writing, and nobody else's, and leaves it full.
// Blocks for about `limit_ms`, or until the disk answers. An error of the disk: there are no rates.
Result<DiskRates> TryDisk(Fd file, std::unique_ptr<ThreadStarter> threads, uint64_t limit_ms);

}  // namespace parkade
