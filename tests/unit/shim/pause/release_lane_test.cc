// ReleaseLane: memory is released behind the copies, in order, and an error leaves the rest alone.
#include "shim/pause/release_lane.h"

#include <pthread.h>

#include <functional>

#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

constexpr int kPieces = 24;  // more than a lane of copies has in flight

// What one test wants to know of each call; the fake driver's own function does the work.
struct Watched {
  decltype(Driver::mem_release) release;
  decltype(Driver::memcpy_dtoh_async) copy;
  std::function<void()> on_release, on_copy;
};
Watched watched;

CUresult Release(CUmemGenericAllocationHandle handle) {
  if (watched.on_release) watched.on_release();
  return watched.release(handle);
}
CUresult Copy(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (watched.on_copy) watched.on_copy();
  return watched.copy(to, from, bytes, stream);
}

void Watch(Driver& driver) {
  watched = {driver.mem_release, driver.memcpy_dtoh_async, {}, {}};
  driver.mem_release = Release;
  driver.memcpy_dtoh_async = Copy;
}

// A mark that another thread waits for.
class Mark {
 public:
  void Set() {
    MutexLock lock(mu_);
    set_ = true;
    changed_.NotifyAll();
  }
  bool Await() {
    MutexLock lock(mu_);
    for (const Deadline by = Deadline::InMs(20'000); !set_ && !by.Passed();) {
      changed_.WaitUntil(mu_, by);
    }
    return set_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool set_ GUARDED_BY(mu_) = false;
};

TEST_CASE("copies do not wait for a release, nor a release for the last copy") {
  ParkedProcess p;
  for (int i = 0; i < kPieces; ++i) p.MapOwn(0, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  Watch(p.driver);
  Mark last_but_one_copied, first_released;
  int copies = 0;
  bool copies_went_on = true, release_went_on = false;
  pthread_t releasing{}, copying{};
  watched.on_copy = [&] {
    copying = pthread_self();
    if (++copies == kPieces - 1) last_but_one_copied.Set();
    if (copies == kPieces) release_went_on = first_released.Await();
  };
  watched.on_release = [&] {
    releasing = pthread_self();
    copies_went_on = last_but_one_copied.Await() && copies_went_on;
    first_released.Set();
  };
  REQUIRE(p.Pause(wire::Policy::kHost).result.ok());
  CHECK(copies == kPieces);
  CHECK(copies_went_on);
  CHECK(release_went_on);
  CHECK_FALSE(pthread_equal(releasing, copying));
  CHECK(p.fake.handle_bytes() == 0);
  watched = {watched.release, watched.copy, {}, {}};
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

// Ranges of one piece each, mapped.
struct Pieces {
  Pieces(DeviceMemory& m, FakeDriver& fake) : memory(m) {
    for (Range& range : ranges) {
      range.bytes = 2_MiB;
      FakeDriver::MakeCurrent(fake.Context(0));
      REQUIRE(memory.Build(range) == CUDA_SUCCESS);
    }
  }
  size_t out() const {
    return size_t(std::count_if(std::begin(ranges), std::end(ranges),
                                [](const Range& range) { return range.pieces[0].handle == 0; }));
  }
  ~Pieces() {
    for (Range& range : ranges) memory.Destroy(range);
  }

  DeviceMemory& memory;
  Range ranges[4];
};

TEST_CASE("pieces are released in their order, and counted") {
  FakeDriver fake;
  DeviceMemory memory(fake.driver());
  Pieces pieces(memory, fake);
  ReleaseLane lane(fake.driver(), memory);
  for (Range& range : pieces.ranges) REQUIRE(lane.Release(range, range.pieces[0]).ok());
  REQUIRE(lane.Finish().ok());
  CHECK(pieces.out() == 4);
  CHECK(lane.released_bytes() == 8_MiB);
  CHECK(fake.handle_bytes() == 0);
}

TEST_CASE("after a release that fails nothing more is released, and the caller hears it") {
  FakeDriver fake;
  DeviceMemory memory(fake.driver());
  Pieces pieces(memory, fake);
  fake.Fail("cuMemUnmap", 2, CUDA_ERROR_UNKNOWN);
  ReleaseLane lane(fake.driver(), memory);
  for (Range& range : pieces.ranges) (void)lane.Release(range, range.pieces[0]);
  const auto finished = lane.Finish();
  REQUIRE_FALSE(finished.ok());
  CHECK(finished.error().cuda == CUDA_ERROR_UNKNOWN);
  CHECK(pieces.out() == 1);
  CHECK(lane.released_bytes() == 2_MiB);
  CHECK_FALSE(lane.Release(pieces.ranges[3], pieces.ranges[3].pieces[0]).ok());
  lane.Stop();
  CHECK(pieces.out() == 1);
}

}  // namespace
}  // namespace parkade::shim
