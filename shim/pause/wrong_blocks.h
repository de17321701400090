// WrongBlocks: what was found wrong with backups while they were read.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/wire.h"
#include "shim/heap/range.h"
#include "shim/pause/range_backing.h"

namespace parkade::shim {

struct WrongBlocks {
  uint64_t count = 0;
  std::vector<wire::WrongBlock> blocks;  // the first of them, op_id unset
  Result<void> first;                    // DATA_LOSS, BACKUP_CORRUPT or BACKUP_MISSING

  enum class How : uint8_t { kChanged, kMissing };
  void Add(const Range& range, const Block& block, How how);
};

}  // namespace parkade::shim
