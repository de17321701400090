// Says where each block is.
#include "shim/pause/wrong_blocks.h"

#include <cstdio>

namespace parkade::shim {

void WrongBlocks::Add(const Range& range, const Block& block, How how) {
  const auto& backing = static_cast<const RangeBacking&>(*range.backing);
  const bool missing = how == How::kMissing;
  const bool in_file = !block.filled && !block.in_host;
  auto wrong = wire::Make<wire::WrongBlock>();
  wrong.address = range.base + backing.ExtentsOf(block).front().offset;
  wrong.bytes = block.bytes;
  wrong.device = range.device;
  wrong.place = uint32_t(in_file ? wire::Place::kDisk : wire::Place::kHost);
  wrong.missing = missing ? 1 : 0;
  if (in_file) {
    wrong.file = block.file->file;
    wrong.offset = block.file->offset;
  }
  if (blocks.size() < wire::kMaxWrongBlocks) blocks.push_back(wrong);
  if (++count != 1) return;
  char place[64] = "host memory";
  if (in_file) {
    snprintf(place, sizeof place, "file %u at %llu", wrong.file, (unsigned long long)wrong.offset);
  }
  first = MakeError(Code::kDataLoss, missing ? "BACKUP_MISSING" : "BACKUP_CORRUPT",
                    "the backup of 0x%llx on device %d %s: %llu bytes in %s",
                    (unsigned long long)wrong.address, wrong.device,
                    missing ? "is gone" : "is not what was stored", (unsigned long long)wrong.bytes,
                    place);
}

}  // namespace parkade::shim
