// Ranges of several pieces: what is out and what is back when a move stops between two pieces.
#include "shim/pause/mover.h"

#include <map>

#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

constexpr Bytes kPiece = 2_MiB;
constexpr int kPieces = 5;

// One range of five pieces; live are all but a hole that spans two pieces' border.
struct PiecedRange {
  explicit PiecedRange(FakeDriver::Options options = {})
      : p(options),
        mover(p.driver, p.contexts, p.heap.memory(), p.pool, *p.ledger, FaultyEngine::Make) {
    range.bytes = kPieces * kPiece;
    range.context = p.fake.Context(0);
    CopyText(range.tag, "default");
    REQUIRE(p.driver.mem_address_reserve(&range.base, range.bytes, 0, 0, 0) == CUDA_SUCCESS);
    for (int i = 0; i < kPieces; ++i) {
      CUmemGenericAllocationHandle handle = 0;
      REQUIRE(p.heap.memory().Create(0, kPiece, &handle) == CUDA_SUCCESS);
      REQUIRE(p.driver.mem_map(range.base + i * kPiece, kPiece, 0, handle, 0) == CUDA_SUCCESS);
      range.pieces.push_back({i * kPiece, kPiece, handle});
    }
    REQUIRE(p.heap.memory().SetAccess(range) == CUDA_SUCCESS);
    range.extents = {{0, kPiece - 64_KiB}, {kPiece + 128_KiB, range.bytes - kPiece - 128_KiB}};
    for (const Extent& extent : range.extents) {
      parts.push_back({range.base + extent.offset, extent.bytes, unsigned(extent.offset + 7), ""});
      ParkedProcess::Fill(parts.back());
    }
    all[0] = &range;
  }

  Result<void> Evict(wire::Policy policy) {
    EvictionPlan plan;
    plan.policy = policy;
    plan.chunk_bytes = 1_MiB;
    if (policy != wire::Policy::kDisk) plan.host_bytes = 5_MiB + 4096;
    if (policy != wire::Policy::kHost) plan.disk_bytes = 16_MiB;
    if (policy == wire::Policy::kHost) plan.host_bytes = 16_MiB;
    Fd file[] = {MemoryFile(16_MiB)};
    files = std::move(*DirectFiles::Adopt(file));
    const auto order = OrderEviction(all, plan, files.capacity());
    REQUIRE(order.ok());
    return mover.Evict(*order, plan, files, abort, &report);
  }
  Result<void> Restore() { return mover.Restore(all, files, 1_MiB, &report); }

  int PiecesOut() const {
    return int(std::count_if(range.pieces.begin(), range.pieces.end(),
                             [](const Piece& piece) { return piece.handle == 0; }));
  }
  bool BytesRight() const {
    return PiecesOut() == 0 && std::all_of(parts.begin(), parts.end(), ParkedProcess::Right);
  }

  ParkedProcess p;
  Mover mover;
  DirectFiles files;
  std::atomic<bool> abort{false};
  MoveReport report;
  Range range;
  Range* all[1];
  std::vector<ParkedProcess::Buffer> parts;
};

const wire::Policy kPolicies[] = {wire::Policy::kHost, wire::Policy::kDisk, wire::Policy::kAuto};

TEST_CASE("where the GPU takes no kernel of ours the processor hashes, and the ledger says why") {
  for (const wire::Policy policy : kPolicies) {
    PiecedRange r({.kernels = false});
    REQUIRE(r.Evict(policy).ok());
    CHECK(r.p.fake.Calls("cuLaunchKernel") == 0);
    auto& backing = static_cast<RangeBacking&>(*r.range.backing);
    Block& block = backing.blocks.back();
    const Digest right = std::exchange(block.digest, Digest{1, 2});
    const auto wrong = r.Restore();
    REQUIRE_FALSE(wrong.ok());
    CHECK(std::string(wrong.error().reason) == "BACKUP_CORRUPT");
    block.digest = right;
    REQUIRE(r.Restore().ok());
    CHECK(r.BytesRight());
    r.mover.KeepBacking(r.range);
    CHECK(r.range.backing == nullptr);
    const auto header = wire::ReadLedgerHeader(r.p.ledger->fd());
    REQUIRE(header.ok());
    CHECK(ReadText(header->text).find("the GPU does not hash") != std::string_view::npos);
  }
}

TEST_CASE("what the processor has hashed the GPU verifies, and the other way round") {
  for (const bool out : {true, false}) {  // the way out's kernel is lost, or the way in's
    for (const wire::Policy policy : kPolicies) {
      PiecedRange r;
      const auto lose = [&r] {  // machine code and PTX
        r.p.contexts.Remove(r.p.fake.Context(0));
        r.p.contexts.Add(r.p.fake.Context(0), 0);  // so that nothing is kept from the way out
        r.p.fake.Fail("cuModuleLoadData", 1, CUDA_ERROR_NO_BINARY_FOR_GPU, 2);
      };
      if (out) lose();
      REQUIRE(r.Evict(policy).ok());
      if (!out) lose();
      REQUIRE(r.Restore().ok());
      CHECK(r.BytesRight());
      CHECK(r.p.fake.Calls("cuLaunchKernel") > 0);
      CHECK_FALSE(r.p.fake.FaultPending("cuModuleLoadData"));
    }
  }
}

TEST_CASE("a range of several pieces leaves and comes back") {
  for (const wire::Policy policy : kPolicies) {
    PiecedRange r;
    REQUIRE(r.Evict(policy).ok());
    CHECK(r.PiecesOut() == kPieces);
    CHECK(r.p.fake.handle_bytes() == 0);
    CHECK(BytesOut(r.range) == LiveBytes(r.range));
    CHECK(PlaceOf(r.range) ==
          (policy == wire::Policy::kHost ? wire::Place::kHost : wire::Place::kDisk));
    REQUIRE(r.Restore().ok());
    CHECK(r.BytesRight());
    r.mover.KeepBacking(r.range);
    REQUIRE(r.range.backing != nullptr);
  }
}

TEST_CASE("a range that is out in part comes back whole") {
  for (const wire::Policy policy : kPolicies) {
    for (int n = 1; n <= kPieces; ++n) {
      INFO("unmap " << n << ", policy " << int(policy));
      PiecedRange r;
      r.p.fake.Fail("cuMemUnmap", n, CUDA_ERROR_UNKNOWN);
      REQUIRE_FALSE(r.Evict(policy).ok());
      CHECK(r.PiecesOut() == n - 1);
      REQUIRE(r.Restore().ok());
      CHECK(r.BytesRight());
      CHECK(r.p.fake.handle_bytes() == r.range.bytes);
    }
  }
}

TEST_CASE("an undo that fails leaves the same pieces out, and can be tried again") {
  int tried = 0;
  for (const wire::Policy policy : kPolicies) {
    for (const char* call :
         {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemcpyHtoDAsync", "cuEventRecord"}) {
      for (int n = 1; n <= kPieces; ++n) {
        INFO(call << " " << n << ", policy " << int(policy));
        PiecedRange r;
        r.p.fake.Fail("cuMemUnmap", 4, CUDA_ERROR_UNKNOWN);
        REQUIRE_FALSE(r.Evict(policy).ok());
        REQUIRE(r.PiecesOut() == 3);
        r.p.fake.Fail(call, n, CUDA_ERROR_UNKNOWN);
        const auto failed = r.Restore();
        if (r.p.fake.FaultPending(call)) continue;
        ++tried;
        REQUIRE_FALSE(failed.ok());
        REQUIRE(r.PiecesOut() == 3);
        REQUIRE(r.p.fake.handle_bytes() == 2 * kPiece);
        REQUIRE(r.Restore().ok());
        REQUIRE(r.BytesRight());
        REQUIRE(r.p.fake.mistakes() == 0);
      }
    }
  }
  CHECK(tried > 25);
}

TEST_CASE("a refused release leaves the piece mapped with its bytes") {
  PiecedRange r;
  r.p.fake.Fail("cuMemRelease", 2, CUDA_ERROR_UNKNOWN);
  REQUIRE_FALSE(r.Evict(wire::Policy::kHost).ok());
  CHECK(r.PiecesOut() == 1);
  REQUIRE(r.Restore().ok());
  CHECK(r.BytesRight());
  CHECK(r.p.fake.handle_bytes() == r.range.bytes);
}

}  // namespace
}  // namespace parkade::shim
