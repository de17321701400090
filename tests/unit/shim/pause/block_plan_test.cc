// How ranges are cut into blocks, which of them keep their places, and where the others go.
#include "shim/pause/block_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/common/io/temporary_file.h"

namespace parkade::shim {
namespace {

using wire::Policy;

TEST_CASE("blocks cover the live bytes once and stop at each window's border") {
  Range range;
  range.bytes = 15_MiB;
  range.pieces = {{0, 3_MiB, 1}, {3_MiB, 4_MiB, 2}, {7_MiB, 8_MiB, 3}};
  range.extents = {{4096, 8192}, {1_MiB, 4_MiB}, {6_MiB, 4096}, {9_MiB, 3_MiB}};
  CHECK(LiveBytesByPiece(range) == std::vector<Bytes>{8192 + 2_MiB, 2_MiB + 4096, 3_MiB});

  for (const Bytes most : {Bytes(4096), 12_KiB, 1_MiB, 64_MiB}) {
    const auto ledger = LedgerWriter::Create();
    REQUIRE(ledger.ok());
    RangeBacking backing(**ledger);
    for (BlockCutter cutter(range); !cutter.done();) {
      cutter.Cut(backing, std::min(cutter.Next(), most));
    }
    Bytes at = 0, sum = 0;
    for (const Block& block : backing.blocks) {
      const Bytes window = backing.WindowOf(range, block);
      const Piece& piece = range.pieces[block.piece];
      CHECK((window - piece.offset) % kHashBlock == 0);
      Bytes bytes = 0;
      for (const Extent& extent : backing.ExtentsOf(block)) {
        CHECK(extent.offset >= at);
        CHECK(extent.offset >= window);
        at = extent.offset + extent.bytes;
        CHECK(at <= std::min(window + kHashBlock, piece.offset + piece.bytes));
        bytes += extent.bytes;
      }
      CHECK(bytes == block.bytes);
      CHECK(bytes <= most);
      sum += bytes;
    }
    CHECK(sum == LiveBytes(range));
  }
}

TEST_CASE("a block is split between two of its extents and within one") {
  const auto ledger = LedgerWriter::Create();
  REQUIRE(ledger.ok());
  Range range;
  range.bytes = 4_MiB;
  range.pieces = {{0, 4_MiB, 1}};
  range.extents = {{0, 8192}, {16384, 8192}, {2_MiB, 4096}};
  for (const Bytes first : {Bytes(4096), Bytes(8192), Bytes(12288)}) {
    RangeBacking backing(**ledger);
    for (BlockCutter cutter(range); !cutter.done();) cutter.Cut(backing, cutter.Next());
    REQUIRE(backing.blocks.size() == 2);
    SplitBlock(backing, 0, first);
    REQUIRE(backing.blocks.size() == 3);
    CHECK(backing.blocks[0].bytes == first);
    CHECK(backing.blocks[1].bytes == 16384 - first);
    std::vector<std::pair<Bytes, Bytes>> pages;  // block, offset
    for (size_t i = 0; i < 3; ++i) {
      Bytes sum = 0;
      for (const Extent& extent : backing.ExtentsOf(backing.blocks[i])) {
        for (Bytes at = 0; at < extent.bytes; at += 4096) pages.push_back({i, extent.offset + at});
        sum += extent.bytes;
      }
      CHECK(sum == backing.blocks[i].bytes);
    }
    const Bytes offsets[] = {0, 4096, 16384, 20480, 2_MiB};
    REQUIRE(pages.size() == 5);
    for (size_t i = 0; i < 5; ++i) CHECK(pages[i].second == offsets[i]);
  }
}

// One range of one piece and a file, planned again and again as if each plan had been carried out.
struct Planned {
  explicit Planned(std::vector<Extent> extents, Bytes file_bytes = 16_MiB) {
    range.bytes = 16_MiB;
    range.pieces = {{0, 16_MiB, 1}};
    range.extents = std::move(extents);
    Fd file[] = {MemoryFile(file_bytes)};
    files = std::move(*DirectFiles::Adopt(file));
  }

  Result<void> Plan(Policy policy, Bytes host_bytes = 0, bool files_hold = true) {
    const Bytes live = LiveBytes(range);
    const RangeMove move{&range, policy, live, policy == Policy::kHost ? live : host_bytes};
    plan.new_host.clear();
    plan.space.reset();
    const uint64_t last = files_hold ? number : 0;
    return PlanBlocks(std::span(&move, 1), files, files.capacity(), {}, last, ++number, **ledger,
                      &plan);
  }
  RangeBacking& backing() const { return static_cast<RangeBacking&>(*range.backing); }
  std::vector<Block>& blocks() const { return backing().blocks; }
  void StoreInFiles() {
    for (Block& block : blocks()) backing().InFile(block);
  }
  // Blocks that are stored, by number.
  std::vector<size_t> Stored() const {
    std::vector<size_t> stored;
    for (size_t i = 0; i < blocks().size(); ++i) {
      if (blocks()[i].stored()) stored.push_back(i);
    }
    return stored;
  }

  Result<std::unique_ptr<LedgerWriter>> ledger = LedgerWriter::Create();
  Range range;
  DirectFiles files;
  BlockPlan plan;
  uint64_t number = 1;
};

TEST_CASE("what was stored in a file keeps its place, as long as its window has as many bytes") {
  Planned p({{0, 8_MiB}});
  REQUIRE(p.Plan(Policy::kDisk).ok());
  REQUIRE(p.blocks().size() == 4);
  p.StoreInFiles();
  const auto before = wire::ReadLedgerHeader((*p.ledger)->fd());
  CHECK(before->disk_backup_bytes == 8_MiB);
  std::vector<uint64_t> offsets;
  for (const Block& block : p.blocks()) offsets.push_back(block.file->offset);

  // The second window loses half of its bytes, the third has as many elsewhere, the fourth is gone.
  p.range.extents = {{0, 2_MiB}, {2_MiB, 1_MiB}, {4_MiB, 2_MiB}};
  REQUIRE(p.Plan(Policy::kDisk).ok());
  CHECK(p.Stored() == std::vector<size_t>{0, 2});
  CHECK(p.blocks()[0].file->offset == offsets[0]);
  CHECK(p.blocks()[2].file->offset == offsets[2]);
  CHECK(p.blocks()[1].file->offset == offsets[1]);  // the first hole
  const auto after = wire::ReadLedgerHeader((*p.ledger)->fd());
  CHECK(after->disk_backup_bytes == 4_MiB);
  CHECK(after->disk_retained_bytes == 0);

  // Files that have been touched hold nothing.
  p.StoreInFiles();
  REQUIRE(p.Plan(Policy::kDisk, 0, false).ok());
  CHECK(p.Stored().empty());
}

TEST_CASE("new blocks are cut to the holes that are left in the file") {
  Planned p({{0, 1_MiB}, {2_MiB, 1_MiB}, {4_MiB, 1_MiB}, {6_MiB, 1_MiB}}, 4_MiB);
  REQUIRE(p.Plan(Policy::kDisk).ok());
  p.StoreInFiles();
  p.range.extents = {{2_MiB, 1_MiB}, {6_MiB, 1_MiB}, {8_MiB, 2_MiB}};
  REQUIRE(p.Plan(Policy::kDisk).ok());
  CHECK(p.Stored() == std::vector<size_t>{0, 1});
  REQUIRE(p.blocks().size() == 4);
  CHECK(p.blocks()[2].file->offset == 0);
  CHECK(p.blocks()[2].bytes == 1_MiB);
  CHECK(p.blocks()[3].file->offset == 2_MiB);
  CHECK(p.blocks()[3].bytes == 1_MiB);
  // The window that lies in two blocks is known again.
  p.StoreInFiles();
  REQUIRE(p.Plan(Policy::kDisk).ok());
  CHECK(p.Stored().size() == 4);
  p.range.extents.push_back({12_MiB, 4096});
  const auto full = p.Plan(Policy::kDisk);
  REQUIRE_FALSE(full.ok());
  CHECK(std::string_view(full.error().reason) == "DISK_SPACE");
}

TEST_CASE("a backup of another tier than the policy's is let go of") {
  Planned p({{0, 4_MiB}});
  REQUIRE(p.Plan(Policy::kDisk).ok());
  p.StoreInFiles();
  REQUIRE(p.Plan(Policy::kHost).ok());
  CHECK(p.Stored().empty());
  CHECK(p.plan.new_host[nullptr] == 4_MiB);
  CHECK_FALSE(p.blocks()[0].file);

  // Under `auto` each block stays where it is, and new ones go to the host while there is room.
  REQUIRE(p.Plan(Policy::kDisk).ok());
  p.StoreInFiles();
  p.range.extents = {{0, 8_MiB}};
  REQUIRE(p.Plan(Policy::kAuto, 2_MiB).ok());
  CHECK(p.Stored() == std::vector<size_t>{0, 1});
  CHECK(p.plan.new_host[nullptr] == 2_MiB);
  CHECK_FALSE(p.blocks()[2].file);
  CHECK(p.blocks()[3].file);
}

TEST_CASE("what keeps its place in a file gives way where it is the rest's room") {
  Planned p({{0, 4_MiB}}, 4_MiB);
  REQUIRE(p.Plan(Policy::kAuto).ok());
  p.StoreInFiles();
  Range other;
  other.bytes = 4_MiB;
  other.pieces = {{0, 4_MiB, 2}};
  other.extents = {{0, 4_MiB}};
  // The host has room for the one under `auto` now, so that the file was not made larger.
  const RangeMove moves[] = {{&p.range, Policy::kAuto, 4_MiB, 4_MiB},
                             {&other, Policy::kDisk, 4_MiB, 0}};
  BlockPlan plan;
  REQUIRE(
      PlanBlocks(moves, p.files, p.files.capacity(), {}, p.number, p.number + 1, **p.ledger, &plan)
          .ok());
  CHECK(p.Stored().empty());
  CHECK(plan.new_host[nullptr] == 4_MiB);
  for (const Block& block : p.blocks()) CHECK_FALSE(block.file);
  for (const Block& block : static_cast<RangeBacking&>(*other.backing).blocks) CHECK(block.file);
}

TEST_CASE("what was a pattern asks for no host memory, and is forgotten with its window") {
  Planned p({{0, 4_MiB}});
  REQUIRE(p.Plan(Policy::kHost).ok());
  const uint64_t zero[2] = {};
  for (Block& block : p.blocks()) p.backing().Fill(block, zero);
  REQUIRE(p.Plan(Policy::kHost).ok());
  CHECK(p.plan.new_host[nullptr] == 0);
  CHECK(p.Stored() == std::vector<size_t>{0, 1});
  p.range.extents = {{0, 3_MiB}};
  REQUIRE(p.Plan(Policy::kHost).ok());
  CHECK(p.plan.new_host[nullptr] == 1_MiB);
  CHECK(p.Stored() == std::vector<size_t>{0});
}

}  // namespace
}  // namespace parkade::shim
