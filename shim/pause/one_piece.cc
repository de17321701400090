// Asks the pool for the pieces and cuts them up among the blocks.
#include "shim/pause/one_piece.h"

#include <utility>
#include <vector>

#include "shim/pause/range_backing.h"

namespace parkade::shim {
namespace {

bool HasOnePiece(const RangeBacking& backing) {
  const char* at = backing.blocks.empty() ? nullptr : backing.blocks.front().host.memory();
  for (const Block& block : backing.blocks) {
    if (!block.host || block.host.memory() != at) return false;
    at += block.bytes;
  }
  return true;
}

// A block lies within 2 MiB of its range, and so in one of the pool's.
void Share(std::vector<HostBlock> memory, RangeBacking& backing) {
  auto from = memory.begin();
  uint32_t take = ++backing.last_take;
  for (Block& block : backing.blocks) {
    if (!*from) {
      ++from;
      take = ++backing.last_take;
    }
    block.host = from->Split(block.bytes);
    block.take = take;
  }
}

}  // namespace

Result<void> PlaceInOnePiece(std::span<const RangeMove> moves, HostPool& pool) {
  std::vector<HostPool::OnePiece> wanted;
  std::vector<RangeBacking*> backings;
  for (const RangeMove& move : moves) {
    if (move.policy != wire::Policy::kHost) continue;
    auto& backing = static_cast<RangeBacking&>(*move.range->backing);
    if (HasOnePiece(backing)) continue;
    for (Block& block : backing.blocks) backing.LeaveHost(block);
    wanted.push_back({move.range->context, move.live_bytes, move.range->saving == Saving::kPinned});
    backings.push_back(&backing);
  }
  auto made = pool.MakePieces(wanted);
  if (!made.ok()) return made.error();
  for (size_t i = 0; i < backings.size(); ++i) Share(std::move((*made)[i]), *backings[i]);
  return {};
}

}  // namespace parkade::shim
