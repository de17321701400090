// PlanBlocks: cuts what is to leave HBM into blocks, with what the last backup knows of each, and
// gives those that go to files their place there. Host memory is taken when bytes are about to
// come.
#pragma once

#include <map>
#include <optional>
#include <span>

#include "shim/heap/ledger_writer.h"
#include "shim/pause/eviction_order.h"
#include "shim/pause/file_space.h"
#include "shim/pause/range_backing.h"

namespace parkade::shim {

struct BlockPlan {
  // To be taken for blocks that have no host memory yet, by context.
  std::map<CUcontext, Bytes> new_host;
  std::optional<FileSpace> space;  // what is left of the files; none: there are no files
};

// What backings say of files holds when they carry `last_files`; from now on they carry
// `files_number`. Each range that is not discarded gets a backing in which a block is stored where
// its bytes were when the range was last out; a window that has as many live bytes as then keeps
// its places, unless they are of another tier than the policy asks for. `taken`: parts of the files
// that other ranges have their bytes in, which are left alone. RESOURCE_EXHAUSTED DISK_SPACE. On
// error nothing has been overwritten.
Result<void> PlanBlocks(std::span<const RangeMove> moves, const DirectFiles& files,
                        Bytes disk_bytes, std::span<const FilePart> taken, uint64_t last_files,
                        uint64_t files_number, LedgerWriter& ledger, BlockPlan* plan);

}  // namespace parkade::shim
