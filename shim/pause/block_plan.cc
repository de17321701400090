// Two passes: first all that keeps its place, then places for the rest in what is left.
#include "shim/pause/block_plan.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace parkade::shim {
namespace {

using wire::Policy;

// The blocks that the last backup has for one window, while windows are asked for in order.
class KeptBlocks {
 public:
  KeptBlocks(const Range& range, RangeBacking* kept) : range_(range), kept_(kept) {}

  // Empty when it has not exactly `bytes` for the window.
  std::span<Block> Of(Bytes window, Bytes bytes) {
    if (kept_ == nullptr) return {};
    std::vector<Block>& blocks = kept_->blocks;
    while (next_ < blocks.size() && kept_->WindowOf(range_, blocks[next_]) < window) ++next_;
    size_t end = next_;
    Bytes sum = 0;
    for (; end < blocks.size() && kept_->WindowOf(range_, blocks[end]) == window; ++end) {
      sum += blocks[end].bytes;
    }
    return sum == bytes ? std::span(blocks).subspan(next_, end - next_) : std::span<Block>();
  }

 private:
  const Range& range_;
  RangeBacking* const kept_;
  size_t next_ = 0;
};

struct Planner {
  struct Unplaced {
    RangeBacking* backing;
    size_t block;
  };

  const DirectFiles& files;
  const uint64_t last_files;
  const uint64_t files_number;
  LedgerWriter& ledger;
  BlockPlan& plan;
  std::vector<FileSpace::Part> taken;
  std::vector<Unplaced> unplaced;
  Bytes unplaced_bytes = 0;

  void Cut(const RangeMove& move);
  // Leaves the block no place of a tier that it does not go to; false: it goes to a file and has no
  // place there.
  bool KeepsPlace(const RangeMove& move, RangeBacking& backing, Block& block, Bytes* host_left);
  Result<void> PlaceInFiles();
};

void Planner::Cut(const RangeMove& move) {
  Range& range = *move.range;
  const std::unique_ptr<Backing> owned = std::move(range.backing);
  auto* old = static_cast<RangeBacking*>(owned.get());
  if (old != nullptr) old->Retain(false);
  const bool files_hold = old != nullptr && old->files_number == last_files && files.size() != 0;
  auto made = std::make_unique<RangeBacking>(ledger);
  RangeBacking& backing = *made;
  range.backing = std::move(made);
  backing.blocks.reserve(move.live_bytes / kHashBlock + range.extents.size());
  backing.files_number = files_number;
  backing.moves_on = move.policy == Policy::kAuto;

  KeptBlocks kept(range, old);
  Bytes host_left = move.host_bytes;
  const auto place = [&](Block& block) {
    if (KeepsPlace(move, backing, block, &host_left)) {
      if (block.file) taken.push_back(*block.file);
      return;
    }
    unplaced.push_back({&backing, backing.blocks.size() - 1});
    unplaced_bytes += block.bytes;
  };
  for (BlockCutter cutter(range); !cutter.done();) {
    const std::span<Block> known = kept.Of(cutter.window(), cutter.Next());
    // Of a window with which the host grant ends the first part still goes there.
    const bool ends = host_left >= kDirectAlign && host_left < cutter.Next();
    const Bytes whole = ends ? host_left / kDirectAlign * kDirectAlign : cutter.Next();
    if (known.empty()) place(cutter.Cut(backing, whole));
    for (Block& was : known) {
      Block& block = cutter.Cut(backing, was.bytes);
      backing.Give(block, old->Take(was));
      if (!files_hold) backing.LeaveFile(block);
      place(block);
    }
  }
  // What is left of the grant is for those in files that have changed since.
  for (Block& block : backing.blocks) {
    if (!block.file || block.host || block.bytes > host_left) continue;
    block.to_host = true;
    host_left -= block.bytes;
  }
}

bool Planner::KeepsPlace(const RangeMove& move, RangeBacking& backing, Block& block,
                         Bytes* host_left) {
  const bool fits = *host_left >= block.bytes;
  if (move.policy == Policy::kDisk || !fits) backing.LeaveHost(block);
  if (move.policy == Policy::kHost) backing.LeaveFile(block);
  block.to_host = false;
  if (block.file && !block.host) return true;
  if (!fits) return false;
  *host_left -= block.bytes;
  block.to_host = true;
  // What was a pattern may well be one again.
  if (!block.host && !block.filled) plan.new_host[move.range->context] += block.bytes;
  return true;
}

Result<void> Planner::PlaceInFiles() {
  // What one request should carry belongs together.
  const Bytes run = RoundUp(files.setting().block, kHashBlock);
  FileSpace::Part part{};
  size_t added = 0;  // by splitting, to the indices of the backing at hand
  for (size_t i = 0; i < unplaced.size(); ++i) {
    RangeBacking& backing = *unplaced[i].backing;
    if (i != 0 && unplaced[i - 1].backing != &backing) added = 0;
    for (Bytes left = backing.blocks[unplaced[i].block + added].bytes; left != 0;) {
      if (part.bytes == 0) {
        auto more = plan.space->Take(std::min(unplaced_bytes, std::max(run, left)));
        if (!more.ok()) return more.error();
        part = *more;
      }
      const size_t index = unplaced[i].block + added;
      if (part.bytes < left) {
        backing.Forget(backing.blocks[index]);
        SplitBlock(backing, index, part.bytes);
        ++added;
      }
      const Bytes bytes = backing.blocks[index].bytes;
      backing.blocks[index].file = FileSpace::Part{part.file, part.offset, bytes};
      part.offset += bytes;
      part.bytes -= bytes;
      unplaced_bytes -= bytes;
      left -= bytes;
    }
  }
  return {};
}

Result<void> PlanOnce(std::span<const RangeMove> moves, const DirectFiles& files, Bytes disk_bytes,
                      std::span<const FilePart> taken, uint64_t last_files, uint64_t files_number,
                      LedgerWriter& ledger, BlockPlan* plan) {
  Planner planner{files, last_files, files_number, ledger, *plan, {taken.begin(), taken.end()}, {}};
  for (const RangeMove& move : moves) {
    if (move.policy != Policy::kDiscard) planner.Cut(move);
  }
  if (files.size() != 0) plan->space.emplace(files, disk_bytes, std::move(planner.taken));
  if (planner.unplaced.empty()) return {};
  if (!plan->space) {
    return MakeError(Code::kInternal, "NO_FILES", "bytes without a place to go to");
  }
  return planner.PlaceInFiles();
}

}  // namespace

Result<void> PlanBlocks(std::span<const RangeMove> moves, const DirectFiles& files,
                        Bytes disk_bytes, std::span<const FilePart> taken, uint64_t last_files,
                        uint64_t files_number, LedgerWriter& ledger, BlockPlan* plan) {
  const auto planned =
      PlanOnce(moves, files, disk_bytes, taken, last_files, files_number, ledger, plan);
  if (planned.ok() || last_files == 0) return planned;
  // What keeps its place in files may take room that is meant for the rest: without it.
  plan->new_host.clear();
  plan->space.reset();
  return PlanOnce(moves, files, disk_bytes, taken, 0, files_number, ledger, plan);
}

}  // namespace parkade::shim
