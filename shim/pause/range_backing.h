// RangeBacking: the bytes of one range while it is out, as chunks in host memory and in files.
//
// A chunk is what moves in one go: live bytes of one piece, gathered from one or more extents,
// lying one after the other in its place. Evictor makes chunks, Restorer plays them back, and takes
// none whose bytes have another digest than those that left.
#pragma once

#include <span>
#include <vector>

#include "common/hash/block_hash.h"
#include "proto/ledger.h"
#include "shim/heap/ledger_writer.h"
#include "shim/heap/range.h"
#include "shim/pause/host_pool.h"

namespace parkade::shim {

struct Chunk {
  uint32_t piece;         // of the range; a chunk never crosses a piece's border
  uint32_t first_extent;  // in RangeBacking::extents
  uint32_t extent_count;
  Bytes bytes;                       // sum of its extents
  HostBlock host;                    // empty: the chunk is in a file
  uint32_t file = 0;                 // index in the operation's files
  uint64_t offset = 0;               // in that file
  std::vector<Digest> digests = {};  // of each block of kHashBlock; what has to come back
  bool stored = false;               // all bytes have arrived at their place, and are hashed
};

// Its stored chunks stand in the ledger for as long as it lives.
class RangeBacking final : public Backing {
 public:
  explicit RangeBacking(LedgerWriter& ledger) : ledger_(ledger) {}  // which outlives it
  ~RangeBacking() override;

  std::vector<Extent> extents;
  std::vector<Chunk> chunks;

  std::span<const Extent> ExtentsOf(const Chunk& chunk) const {
    return std::span(extents).subspan(chunk.first_extent, chunk.extent_count);
  }
  void Stored(Chunk& chunk);
  // What the ledger says of a range that is out: the slowest place that holds a part of it.
  wire::Place place() const;

 private:
  LedgerWriter& ledger_;
};

// Walks the live extents of a range and cuts off what comes next.
class ChunkCutter {
 public:
  explicit ChunkCutter(const Range& range) : range_(range) {}

  bool done() const { return extent_ == range_.extents.size(); }
  // The most that the next chunk can have: live bytes up to the piece's end. 0 when done.
  Bytes Next() const;
  // Adds a chunk of `bytes`, at most Next() and a multiple of 4096, to `backing`; its place is to
  // be filled in.
  Chunk& Cut(RangeBacking& backing, Bytes bytes);

 private:
  Bytes offset() const { return range_.extents[extent_].offset + taken_; }

  const Range& range_;
  size_t extent_ = 0;  // the first that is not wholly cut
  Bytes taken_ = 0;    // of that one
  uint32_t piece_ = 0;
};

// Live bytes of each piece of a range.
std::vector<Bytes> LiveBytesByPiece(const Range& range);

}  // namespace parkade::shim
