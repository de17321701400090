// Cuts a range's live bytes into chunks.
#include "shim/pause/range_backing.h"

#include <algorithm>

namespace parkade::shim {
namespace {

Bytes End(const Piece& piece) { return piece.offset + piece.bytes; }
Bytes End(const Extent& extent) { return extent.offset + extent.bytes; }

}  // namespace

RangeBacking::~RangeBacking() {
  Bytes host = 0, disk = 0;
  for (const Chunk& chunk : chunks) {
    if (chunk.stored) (chunk.host ? host : disk) += chunk.bytes;
  }
  ledger_.AddBackup(-int64_t(host), -int64_t(disk));
}

void RangeBacking::Stored(Chunk& chunk) {
  chunk.stored = true;
  const auto bytes = int64_t(chunk.bytes);
  ledger_.AddBackup(chunk.host ? bytes : 0, chunk.host ? 0 : bytes);
}

wire::Place RangeBacking::place() const {
  if (chunks.empty()) return wire::Place::kDiscarded;
  const bool any_on_disk =
      std::any_of(chunks.begin(), chunks.end(), [](const Chunk& c) { return !c.host; });
  return any_on_disk ? wire::Place::kDisk : wire::Place::kHost;
}

Bytes ChunkCutter::Next() const {
  if (done()) return 0;
  uint32_t piece = piece_;
  while (End(range_.pieces[piece]) <= offset()) ++piece;
  const Bytes border = End(range_.pieces[piece]);
  Bytes sum = 0;
  Bytes from = offset();
  for (size_t i = extent_; from < border;) {
    sum += std::min(End(range_.extents[i]), border) - from;
    if (++i == range_.extents.size()) break;
    from = range_.extents[i].offset;
  }
  return sum;
}

Chunk& ChunkCutter::Cut(RangeBacking& backing, Bytes bytes) {
  while (End(range_.pieces[piece_]) <= offset()) ++piece_;
  Chunk chunk{piece_, uint32_t(backing.extents.size()), 0, bytes, {}};
  chunk.digests.resize(HashBlocksIn(bytes));
  for (Bytes left = bytes; left != 0;) {
    const Extent& whole = range_.extents[extent_];
    const Bytes part = std::min(left, End(whole) - offset());
    backing.extents.push_back({offset(), part});
    ++chunk.extent_count;
    left -= part;
    taken_ += part;
    if (taken_ == whole.bytes) {
      ++extent_;
      taken_ = 0;
    }
  }
  backing.chunks.push_back(std::move(chunk));
  return backing.chunks.back();
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

}  // namespace parkade::shim
