// Cuts a range's live bytes into blocks, and keeps account of where these are.
#include "shim/pause/range_backing.h"

#include <algorithm>
#include <utility>

namespace parkade::shim {
namespace {

Bytes End(const Piece& piece) { return piece.offset + piece.bytes; }
Bytes End(const Extent& extent) { return extent.offset + extent.bytes; }

// Windows are counted from a piece's beginning, so that none crosses its border.
Bytes WindowAt(const Piece& piece, Bytes offset) {
  return piece.offset + (offset - piece.offset) / kHashBlock * kHashBlock;
}

}  // namespace

RangeBacking::~RangeBacking() {
  Retain(false);
  ledger_.AddBackup(-int64_t(host_bytes_), -int64_t(disk_bytes_));
  // What lies in one piece goes back in one: the pool looks for the place of each.
  HostBlock run;
  uint32_t take = 0;
  for (Block& block : blocks) {
    if (!block.host) continue;
    if (run && block.take == take && run.memory() + run.bytes() == block.host.memory()) {
      run.Join(std::move(block.host));
    } else {
      run = std::move(block.host);
      take = block.take;
    }
  }
}

Bytes RangeBacking::WindowOf(const Range& range, const Block& block) const {
  return WindowAt(range.pieces[block.piece], extents[block.first_extent].offset);
}

void RangeBacking::Count(const Block& block, int sign) {
  const int64_t host = block.in_host ? sign * int64_t(block.bytes) : 0;
  const int64_t disk = block.in_file ? sign * int64_t(block.bytes) : 0;
  if (host == 0 && disk == 0) return;
  host_bytes_ += Bytes(host);
  disk_bytes_ += Bytes(disk);
  retained_ ? ledger_.AddRetained(host, disk) : ledger_.AddBackup(host, disk);
}

void RangeBacking::Retain(bool retained) {
  if (retained == std::exchange(retained_, retained)) return;
  const auto host = int64_t(host_bytes_), disk = int64_t(disk_bytes_);
  ledger_.AddBackup(retained ? -host : host, retained ? -disk : disk);
  ledger_.AddRetained(retained ? host : -host, retained ? disk : -disk);
  if (!retained) return;
  for (Block& block : blocks) {
    if (!block.in_host) block.host = {};
    if (!block.in_file) block.file.reset();
  }
}

void RangeBacking::InHost(Block& block) {
  Count(block, -1);
  block.in_host = true;
  Count(block, 1);
}

void RangeBacking::InFile(Block& block) {
  Count(block, -1);
  block.in_file = true;
  Count(block, 1);
}

void RangeBacking::Fill(Block& block, const uint64_t pattern[2]) {
  Forget(block);
  block.host = {};
  std::copy_n(pattern, 2, block.pattern);
  block.filled = true;
}

void RangeBacking::Forget(Block& block) {
  Count(block, -1);
  block.in_host = block.in_file = block.filled = false;
}

void RangeBacking::LeaveHost(Block& block) {
  Count(block, -1);
  block.in_host = false;
  block.host = {};
  Count(block, 1);
}

void RangeBacking::LeaveFile(Block& block) {
  Count(block, -1);
  block.in_file = false;
  block.file.reset();
  Count(block, 1);
}

Block RangeBacking::Take(Block& block) {
  Count(block, -1);
  Block taken = std::move(block);
  block.in_host = block.in_file = block.filled = false;
  return taken;
}

void RangeBacking::Give(Block& block, Block&& with) {
  with.piece = block.piece;
  with.first_extent = block.first_extent;
  with.extent_count = block.extent_count;
  last_take = std::max(last_take, with.take);
  block = std::move(with);
  Count(block, 1);
}

void RangeBacking::AddFileParts(std::vector<FilePart>& parts) const {
  for (const Block& block : blocks) {
    if (block.in_file && block.file) parts.push_back(*block.file);
  }
}

const char* RangeBacking::in_one_piece() const {
  const char* const begin = blocks.empty() ? nullptr : blocks.front().host.memory();
  const char* at = begin;
  for (const Block& block : blocks) {
    if (!block.in_host || block.host.memory() != at) return nullptr;
    at += block.bytes;
  }
  return begin;
}

wire::Place RangeBacking::place() const {
  if (blocks.empty()) return wire::Place::kDiscarded;
  const bool any_on_disk = std::any_of(blocks.begin(), blocks.end(),
                                       [](const Block& b) { return b.in_file && !b.in_host; });
  return any_on_disk ? wire::Place::kDisk : wire::Place::kHost;
}

const Piece& BlockCutter::piece() {
  while (End(range_.pieces[piece_]) <= offset()) ++piece_;
  return range_.pieces[piece_];
}

Bytes BlockCutter::window() { return WindowAt(piece(), offset()); }

Bytes BlockCutter::Next() {
  const Bytes border = std::min(window() + kHashBlock, End(piece()));
  Bytes sum = 0;
  Bytes from = offset();
  for (size_t i = extent_; from < border;) {
    sum += std::min(End(range_.extents[i]), border) - from;
    if (++i == range_.extents.size()) break;
    from = range_.extents[i].offset;
  }
  return sum;
}

Block& BlockCutter::Cut(RangeBacking& backing, Bytes bytes) {
  piece();
  Block block{piece_, uint32_t(backing.extents.size()), 0, bytes};
  for (Bytes left = bytes; left != 0;) {
    const Extent& whole = range_.extents[extent_];
    const Bytes part = std::min(left, End(whole) - offset());
    backing.extents.push_back({offset(), part});
    ++block.extent_count;
    left -= part;
    taken_ += part;
    if (taken_ == whole.bytes) {
      ++extent_;
      taken_ = 0;
    }
  }
  backing.blocks.push_back(std::move(block));
  return backing.blocks.back();
}

bool AreNeighbours(const Block& first, const Block& second) {
  if (first.piece != second.piece || first.filled != second.filled) return false;
  if (first.filled) return std::equal(first.pattern, first.pattern + 2, second.pattern);
  if (first.in_host != second.in_host || bool(first.host) != bool(second.host)) return false;
  if (first.host) {
    return first.take == second.take && first.host.memory() + first.bytes == second.host.memory();
  }
  return first.file && second.file && first.file->file == second.file->file &&
         first.file->offset + first.bytes == second.file->offset;
}

std::vector<Extent> Merged(const RangeBacking& backing, size_t first, size_t count) {
  std::vector<Extent> merged;
  for (size_t i = first; i < first + count; ++i) {
    for (const Extent& extent : backing.ExtentsOf(backing.blocks[i])) {
      if (!merged.empty() && End(merged.back()) == extent.offset) {
        merged.back().bytes += extent.bytes;
      } else {
        merged.push_back(extent);
      }
    }
  }
  return merged;
}

void SplitBlock(RangeBacking& backing, size_t index, Bytes bytes) {
  Block& first = backing.blocks[index];
  uint32_t extent = first.first_extent;
  Bytes left = bytes;
  while (backing.extents[extent].bytes <= left) left -= backing.extents[extent++].bytes;
  Block rest{first.piece, extent, first.first_extent + first.extent_count - extent,
             first.bytes - bytes};
  first.extent_count = extent - first.first_extent;
  first.bytes = bytes;
  if (left != 0) {
    const Extent cut = backing.extents[extent];
    backing.extents[extent].bytes = left;
    backing.extents.insert(backing.extents.begin() + extent + 1,
                           {cut.offset + left, cut.bytes - left});
    ++first.extent_count;
    ++rest.first_extent;
    for (size_t i = index + 1; i < backing.blocks.size(); ++i) ++backing.blocks[i].first_extent;
  }
  backing.blocks.insert(backing.blocks.begin() + ptrdiff_t(index) + 1, std::move(rest));
}

std::vector<Bytes> LiveBytesByPiece(const Range& range) {
  std::vector<Bytes> live(range.pieces.size(), 0);
  size_t p = 0;
  for (const Extent& extent : range.extents) {
    for (Bytes at = extent.offset; at < End(extent);) {
      while (End(range.pieces[p]) <= at) ++p;
      const Bytes to = std::min(End(extent), End(range.pieces[p]));
      live[p] += to - at;
      at = to;
    }
  }
  return live;
}

Bytes BytesOut(const Range& range) {
  const auto* backing = static_cast<const RangeBacking*>(range.backing.get());
  if (backing == nullptr) return 0;
  Bytes sum = 0;
  for (const Block& block : backing->blocks) {
    if (range.pieces[block.piece].handle == 0) sum += block.bytes;
  }
  return sum;
}

Bytes BytesOut(std::span<Range* const> ranges) {
  Bytes sum = 0;
  for (const Range* range : ranges) sum += BytesOut(*range);
  return sum;
}

wire::Place PlaceOf(const Range& range) {
  const auto* backing = static_cast<const RangeBacking*>(range.backing.get());
  return backing != nullptr ? backing->place() : wire::Place::kDiscarded;
}

}  // namespace parkade::shim
