// Shelf: what a move has made in a context the next one takes, and nobody else.
#include "shim/pause/shelf.h"

#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

const char* const kMakes[] = {"cuStreamCreate", "cuEventCreate", "cuModuleLoadData",
                              "cuMemHostAlloc"};

std::vector<int> Made(const ParkedProcess& p) {
  std::vector<int> made;
  for (const char* call : kMakes) made.push_back(p.fake.Calls(call));
  return made;
}

void Cycle(ParkedProcess& p) {
  REQUIRE(p.Pause(wire::Policy::kHost).result.ok());
  REQUIRE(p.Resume().result.ok());
  REQUIRE(p.BytesRight());
}

TEST_CASE("a second pause and its resume make no stream, no event and no module") {
  ParkedProcess p({.devices = 2});
  p.Allocate(3_MiB, "default", 0);
  p.Allocate(3_MiB, "default", 1);
  Cycle(p);
  const auto made = Made(p);
  const auto held = p.fake.held();
  for (int i = 0; i < 3; ++i) Cycle(p);
  CHECK(Made(p) == made);
  CHECK(p.fake.held() == held);
}

TEST_CASE("what a move that failed has made is not used again") {
  ParkedProcess p;
  p.Allocate(3_MiB);
  Cycle(p);
  const auto held = p.fake.held();
  p.app[0].seed += 100;
  ParkedProcess::Fill(p.app[0]);  // so that there is something to move
  p.fake.Fail("cuMemcpyDtoHAsync", 1, CUDA_ERROR_UNKNOWN);
  REQUIRE_FALSE(p.Pause(wire::Policy::kHost).result.ok());
  CHECK(p.fake.held().streams < held.streams);
  Cycle(p);
  CHECK(p.fake.held().streams == held.streams);
}

TEST_CASE(
    "nothing of a context that is gone is used or destroyed in its successor at that address") {
  ParkedProcess p;
  p.Allocate(3_MiB);
  Cycle(p);
  const auto held = p.fake.held();
  const auto made = Made(p);
  p.contexts.Remove(p.fake.Context(0));
  p.contexts.Add(p.fake.Context(0), 0);
  Cycle(p);
  CHECK(Made(p) != made);
  CHECK(p.fake.held().streams == 2 * held.streams);  // the fake driver has not let go of the first
  CHECK(p.fake.mistakes() == 0);
}

struct Gear {
  explicit Gear(int* counter) : gone(counter) {}
  ~Gear() { *gone += forgotten ? 1 : 100; }
  void Forget() { forgotten = true; }
  int* gone;
  bool forgotten = false;
};

TEST_CASE("what is kept of contexts that are gone is forgotten, never given to the driver") {
  Contexts contexts;
  const CUcontext first = reinterpret_cast<CUcontext>(0x10);
  const CUcontext second = reinterpret_cast<CUcontext>(0x20);
  contexts.Add(first, 0);
  contexts.Add(second, 0);
  int gone = 0;
  Shelf<Gear> shelf(contexts);
  shelf.Keep(first, std::make_unique<Gear>(&gone));
  contexts.Remove(first);
  CHECK(gone == 0);
  shelf.Keep(second, std::make_unique<Gear>(&gone));
  CHECK(gone == 1);
  CHECK(shelf.Take(first) == nullptr);
  CHECK(shelf.Take(second) != nullptr);
  CHECK(gone == 101);
}

}  // namespace
}  // namespace parkade::shim
