// RangeBacking: what is known of the bytes of one range outside HBM, as blocks in host memory and
// in files.
//
// A block is the live bytes of one window of 2 MiB of a piece, gathered from one or more extents
// and lying one after the other in their place. Evictor fills blocks, Restorer plays them back, and
// takes none whose bytes have another digest than those that left. After a restore the backing is
// kept: bytes that have not changed at the next evict stay where they are.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/hash/block_hash.h"
#include "proto/ledger.h"
#include "shim/heap/ledger_writer.h"
#include "shim/heap/range.h"
#include "shim/pause/file_space.h"
#include "shim/pause/host_pool.h"

namespace parkade::shim {

struct Block {
  uint32_t piece;         // of the range; a block never crosses a window's border
  uint32_t first_extent;  // in RangeBacking::extents
  uint32_t extent_count;
  Bytes bytes;                               // sum of its extents
  Digest digest = {};                        // of these bytes; what has to come back
  HostBlock host = {};                       // its place in host memory, or empty
  uint32_t take = 0;                         // blocks with the same lie in one piece of host memory
  std::optional<FileSpace::Part> file = {};  // its place in the operation's files
  uint64_t pattern[2] = {};                  // of a filled one
  // Where the bytes are, all of them and hashed. None: nowhere yet but in HBM.
  bool in_host = false;
  bool in_file = false;
  bool filled = false;   // they are nothing but `pattern`
  bool to_host = false;  // of one about to leave HBM: if it has to move, it goes there

  bool stored() const { return in_host || in_file || filled; }
};

// Its stored bytes stand in the ledger for as long as it lives.
class RangeBacking final : public Backing {
 public:
  explicit RangeBacking(LedgerWriter& ledger) : ledger_(ledger) {}  // which outlives it
  ~RangeBacking() override;

  std::vector<Extent> extents;
  std::vector<Block> blocks;  // by address
  uint64_t files_number = 0;  // of the evict that the files belong to
  uint32_t last_take = 0;     // see Block::take
  bool moves_on = false;      // what is in host memory may go on to the files

  std::span<const Extent> ExtentsOf(const Block& block) const {
    return std::span(extents).subspan(block.first_extent, block.extent_count);
  }
  // The window that a block lies in, as an offset in `range`.
  Bytes WindowOf(const Range& range, const Block& block) const;

  // The bytes of a block have arrived, or are known to be a pattern, which gives its host memory
  // back.
  void InHost(Block& block);
  void InFile(Block& block);
  void Fill(Block& block, const uint64_t pattern[2]);
  // They are about to change in their places, which stay its own.
  void Forget(Block& block);
  void LeaveHost(Block& block);
  void LeaveFile(Block& block);
  // The block with its places and what is known of it, out of this backing.
  Block Take(Block& block);
  // Enters it in this one; `block` has its extents.
  void Give(Block& block, Block&& with);

  // Whether the bytes are in HBM too, and only kept: then the ledger counts them as retained, and
  // places without bytes are given back.
  void Retain(bool retained);
  bool in_host_memory() const override { return host_bytes_ != 0; }
  void AddFileParts(std::vector<FilePart>& parts) const override;
  const char* in_one_piece() const override;
  wire::Place place() const override;

 private:
  void Count(const Block& block, int sign);

  LedgerWriter& ledger_;
  Bytes host_bytes_ = 0;
  Bytes disk_bytes_ = 0;
  bool retained_ = false;
};

// Walks the live extents of a range and cuts off what comes next.
class BlockCutter {
 public:
  explicit BlockCutter(const Range& range) : range_(range) {}

  bool done() const { return extent_ == range_.extents.size(); }
  // Of what comes next: the offset of its window, and the live bytes up to the window's end. Not
  // when done.
  Bytes window();
  Bytes Next();
  // Adds a block of `bytes`, at most Next() and a multiple of 4096, to `backing`.
  Block& Cut(RangeBacking& backing, Bytes bytes);

 private:
  Bytes offset() const { return range_.extents[extent_].offset + taken_; }
  const Piece& piece();

  const Range& range_;
  size_t extent_ = 0;  // the first that is not wholly cut
  Bytes taken_ = 0;    // of that one
  uint32_t piece_ = 0;
};

// Whether the bytes of `second`, which comes after `first`, follow it also in the place where they
// are: in one piece of host memory, in a file, or as the same pattern.
bool AreNeighbours(const Block& first, const Block& second);
// The extents of `count` blocks, those that lie side by side as one.
std::vector<Extent> Merged(const RangeBacking& backing, size_t first, size_t count);

// Makes two blocks of blocks[index], the first of `bytes` bytes; it has no place yet.
void SplitBlock(RangeBacking& backing, size_t index, Bytes bytes);

// Live bytes of each piece of a range.
std::vector<Bytes> LiveBytesByPiece(const Range& range);

// The bytes of ranges that are out and kept somewhere.
Bytes BytesOut(const Range& range);
Bytes BytesOut(std::span<Range* const> ranges);
// Where the ledger says that a range with a piece out is.
wire::Place PlaceOf(const Range& range);

}  // namespace parkade::shim
