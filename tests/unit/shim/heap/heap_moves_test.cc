// Ranges that move out and back, and what frees and allocations do meanwhile.
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/unit/shim/heap/heap_fixture.h"

namespace parkade::shim {
namespace {

using Held = FakeDriver::Held;
using wire::Place;

class CountedBacking : public Backing {
 public:
  explicit CountedBacking(int& live) : live_(live) { ++live_; }
  ~CountedBacking() override { --live_; }
  bool in_host_memory() const override { return true; }
  void AddFileParts(std::vector<FilePart>&) const override {}
  const char* in_one_piece() const override { return "in one piece"; }
  wire::Place place() const override { return wire::Place::kHost; }

 private:
  int& live_;
};

// Does with ranges what pause/ does, without keeping their bytes.
struct Mover : HeapFixture {
  using HeapFixture::HeapFixture;

  void Evict(Range& range) {
    for (Piece& piece : range.pieces) {
      fake.driver().mem_unmap(range.base + piece.offset, piece.bytes);
      fake.driver().mem_release(piece.handle);
      piece.handle = 0;
    }
    range.backing = std::make_unique<CountedBacking>(backings);
  }
  void Restore(Range& range) {
    for (Piece& piece : range.pieces) {
      REQUIRE(heap->memory().Create(range.device, piece.bytes, &piece.handle) == CUDA_SUCCESS);
      fake.driver().mem_map(range.base + piece.offset, piece.bytes, 0, piece.handle, 0);
    }
    REQUIRE(heap->memory().SetAccess(range) == CUDA_SUCCESS);
    range.backing.reset();
  }
  void Pause(Place place = Place::kHost) {
    for (Range* range : heap->BeginEviction()) {
      Evict(*range);
      heap->MovedOut(range, place);
    }
  }
  void Resume() {
    for (Range* range : heap->BeginRestore()) {
      Restore(*range);
      heap->MovedIn(range);
    }
  }
  Place PlaceOf(CUdeviceptr ptr) const {
    for (const auto& record : Ledger().records) {
      if (record.base == ptr) return Place(record.place);
    }
    return Place(0);
  }

  int backings = 0;
};

TEST_CASE("all resident ranges move out, in address order, and come back") {
  Mover f;
  const CUdeviceptr small = f.Allocate(4096), middle = f.Allocate(20_MiB);
  const CUdeviceptr large = f.Allocate(600_MiB);
  f.Free(f.Allocate(20_MiB, "gone"));  // an empty slab is given back, not moved
  const Bytes resident = 2_MiB + 64_MiB + 600_MiB;
  CHECK(f.heap->Count().live == 4096 + 620_MiB);

  const auto ranges = f.heap->BeginEviction();
  REQUIRE(ranges.size() == 3);
  CHECK(ranges[0]->base < ranges[1]->base);
  CHECK(ranges[1]->base < ranges[2]->base);
  CHECK(f.heap->Count().resident == resident);
  CHECK_FALSE(f.heap->Find(small)->resident);
  CHECK(f.PlaceOf(large) == Place::kMoving);
  for (Range* range : ranges) {
    f.Evict(*range);
    f.heap->MovedOut(range, Place::kDisk);
  }
  CHECK(f.heap->Count().resident == 0);
  CHECK(f.fake.handle_bytes() == 0);
  CHECK(f.Ledger().header.devices[0].resident_bytes == 0);
  CHECK(f.Ledger().header.devices[0].requested_bytes == 4096 + 620_MiB);
  for (CUdeviceptr ptr : {small, middle, large}) {
    CHECK(f.PlaceOf(ptr) == Place::kDisk);
    CHECK_FALSE(f.heap->Find(ptr)->resident);
  }
  CHECK(f.heap->BeginEviction().empty());

  f.Resume();
  CHECK(f.heap->Count().resident == resident);
  CHECK(f.Ledger().header.devices[0].resident_bytes == resident);
  for (CUdeviceptr ptr : {small, middle, large}) {
    CHECK(f.PlaceOf(ptr) == Place::kGpu);
    CHECK(f.heap->Find(ptr)->resident);
    *reinterpret_cast<char*>(ptr) = 1;
    CHECK(f.Free(ptr) == CUDA_SUCCESS);
  }
}

TEST_CASE("extents cover the live bytes in whole pages and nothing else") {
  Mover f;
  std::vector<CUdeviceptr> made;
  for (int i = 0; i < 64; ++i) made.push_back(f.Allocate(1024));  // four to a page
  const CUdeviceptr far = f.Allocate(6912);
  const CUdeviceptr odd = f.Allocate(40_MiB + 1);
  for (int i = 4; i < 32; ++i) f.Free(made[size_t(i)]);
  auto ranges = f.heap->BeginEviction();
  REQUIRE(ranges.size() == 2);
  for (Range* range : ranges) {
    if (range->base == odd) {
      REQUIRE(range->extents.size() == 1);
      CHECK(range->extents[0].offset == 0);
      CHECK(range->extents[0].bytes == 40_MiB + 4096);
    } else {
      // Pages 0; 8 to 15, and the 6912 bytes behind them.
      REQUIRE(range->extents.size() == 2);
      CHECK(range->extents[0].offset == 0);
      CHECK(range->extents[0].bytes == 4096);
      CHECK(range->extents[1].offset == 8 * 4096);
      CHECK(range->extents[1].bytes == 10 * 4096);
      CHECK(range->base + 16 * 4096 == far);
    }
    f.heap->MovedIn(range);
  }
}

TEST_CASE("an eviction that is called off leaves all as it was") {
  Mover f;
  const CUdeviceptr ptr = f.Allocate(4096);
  const int creates = f.fake.Calls("cuMemCreate");
  for (Range* range : f.heap->BeginEviction()) f.heap->MovedIn(range);
  CHECK(f.heap->Find(ptr)->resident);
  CHECK(f.PlaceOf(ptr) == Place::kGpu);
  CHECK(f.Ledger().header.devices[0].resident_bytes == 2_MiB);
  f.Allocate(4096);  // from the same slab
  CHECK(f.fake.Calls("cuMemCreate") == creates);
}

TEST_CASE("a restore that fails leaves the range out, to be taken again") {
  Mover f;
  const CUdeviceptr ptr = f.Allocate(40_MiB);
  f.Pause();
  for (Range* range : f.heap->BeginRestore()) f.heap->MovedOut(range, Place::kHost);
  CHECK(f.Ledger().header.devices[0].resident_bytes == 0);
  CHECK(f.PlaceOf(ptr) == Place::kHost);
  f.Resume();
  CHECK(f.heap->Find(ptr)->resident);
}

TEST_CASE("a range that stays out in part is counted as far as it is there, and can be freed") {
  Mover f;
  const CUdeviceptr ptr = f.Allocate(600_MiB);
  Range* range = f.heap->BeginEviction().at(0);
  Piece& first = range->pieces.at(0);
  f.fake.driver().mem_unmap(range->base, first.bytes);
  f.fake.driver().mem_release(first.handle);
  first.handle = 0;
  f.heap->MovedOut(range, Place::kHost);
  CHECK(f.heap->Count().resident == 600_MiB - kMaxPiece);
  CHECK(f.Free(ptr) == CUDA_SUCCESS);
  CHECK(f.HeldByHeap() == Held{});
  CHECK(f.Ledger().header.devices[0].resident_bytes == 0);
}

TEST_CASE("a free of paused memory needs no GPU and drops the backing with the last one") {
  Mover f;
  const CUdeviceptr a = f.Allocate(4096), b = f.Allocate(4096), large = f.Allocate(40_MiB);
  f.Pause();
  REQUIRE(f.backings == 2);
  const int waits = f.fake.Calls("cuMemFree"), unmaps = f.fake.Calls("cuMemUnmap");
  CHECK(f.Free(large) == CUDA_SUCCESS);
  CHECK(f.backings == 1);
  CHECK(f.Free(a) == CUDA_SUCCESS);
  CHECK(f.backings == 1);
  CHECK(f.Free(a) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.Free(b + 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.Free(b) == CUDA_SUCCESS);
  CHECK(f.backings == 0);
  CHECK(f.fake.Calls("cuMemFree") == waits);
  CHECK(f.fake.Calls("cuMemUnmap") == unmaps);
  CHECK(f.HeldByHeap() == Held{});
  CHECK(f.heap->BeginRestore().empty());
  CHECK(f.Ledger().records.empty());
}

TEST_CASE("what is freed while its backing is read stays until the reading has ended") {
  Mover m;
  const CUdeviceptr freed = m.Allocate(40_MiB), kept = m.Allocate(64_MiB);
  m.Pause();
  REQUIRE(m.backings == 2);
  const auto read = m.heap->BeginReading({});
  REQUIRE(read.size() == 2);
  CHECK(m.PlaceOf(kept) == Place::kHost);
  CHECK(m.Free(freed) == CUDA_SUCCESS);
  CHECK(m.backings == 2);
  m.heap->EndReading(read);
  CHECK(m.backings == 1);
  m.Resume();
  CHECK(m.PlaceOf(kept) == Place::kGpu);
  CHECK(m.Free(kept) == CUDA_SUCCESS);
}

TEST_CASE("a range whose last allocation is freed while it moves ends with the move") {
  for (const bool out : {true, false}) {
    Mover f;
    const CUdeviceptr small = f.Allocate(4096), large = f.Allocate(600_MiB);
    if (!out) f.Pause();
    const auto ranges = out ? f.heap->BeginEviction() : f.heap->BeginRestore();
    REQUIRE(ranges.size() == 2);
    CHECK(f.Free(small) == CUDA_SUCCESS);
    CHECK(f.Free(large) == CUDA_SUCCESS);
    CHECK(f.Free(large) == CUDA_ERROR_INVALID_VALUE);
    CHECK_FALSE(f.heap->Find(large));
    CHECK(f.HeldByHeap().reservations == 2);  // the mover still has them
    for (Range* range : ranges) {
      if (out) {
        f.Evict(*range);
        f.heap->MovedOut(range, Place::kHost);
      } else {
        f.Restore(*range);
        f.heap->MovedIn(range);
      }
    }
    CHECK(f.HeldByHeap() == Held{});
    CHECK(f.backings == 0);
    CHECK(f.Ledger().records.empty());
    CHECK(f.Ledger().header.devices[0].resident_bytes == 0);
    CHECK(f.heap->Count().resident == 0);
  }
}

TEST_CASE("a block freed while its slab moves is free when the slab is back") {
  Mover f;
  const CUdeviceptr kept = f.Allocate(1_MiB), freed = f.Allocate(1_MiB);
  const auto ranges = f.heap->BeginEviction();
  CHECK(f.Free(freed) == CUDA_SUCCESS);
  for (Range* range : ranges) f.heap->MovedIn(range);
  CHECK(f.Allocate(1_MiB) == freed);
  CHECK(f.heap->Find(kept));
}

TEST_CASE("memory that is allocated while others are out is resident and left alone by resume") {
  Mover f;
  const CUdeviceptr before = f.Allocate(4096);
  f.Pause();
  const CUdeviceptr during = f.Allocate(4096);
  CHECK(f.heap->Find(during)->resident);
  *reinterpret_cast<char*>(during) = 7;
  f.Resume();
  CHECK(*reinterpret_cast<char*>(during) == 7);
  CHECK(f.heap->Find(before)->resident);
  f.Pause();
  CHECK(f.fake.handle_bytes() == 0);
  CHECK(f.Free(during) == CUDA_SUCCESS);
  f.Resume();
  CHECK(f.heap->Count().live == 4096);
}

TEST_CASE("a free that waits for the GPU while its range moves out frees it there") {
  Mover f;
  const CUdeviceptr ptr = f.Allocate(40_MiB);
  // Hooked into the wait: what the operation thread does meanwhile.
  f.fake.OnNativeFree([](void* arg) { static_cast<Mover*>(arg)->Pause(); }, &f);
  CHECK(f.Free(ptr) == CUDA_SUCCESS);
  f.fake.OnNativeFree(nullptr, nullptr);
  CHECK(f.backings == 0);
  CHECK(f.HeldByHeap() == Held{});
}

TEST_CASE("a context that goes while its memory is out or moving takes that along") {
  for (const bool moving : {true, false}) {
    Mover f;
    f.Allocate(4096);
    f.Allocate(40_MiB);
    f.Pause();
    std::vector<Range*> ranges;
    if (moving) ranges = f.heap->BeginRestore();
    f.heap->ForgetContext(f.fake.Context(0));
    CHECK(f.Ledger().records.empty());
    for (Range* range : ranges) f.heap->MovedOut(range, Place::kHost);
    CHECK(f.HeldByHeap() == Held{});
    CHECK(f.backings == 0);
  }
}

}  // namespace
}  // namespace parkade::shim
