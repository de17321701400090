// A process as the tests of single faults pause and resume it, hundreds of times and in several
// ways.
#pragma once

#include <memory>

#include "tests/unit/emulated.h"
#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {

using wire::Policy;
using wire::ProcessState;

// Where bytes go, and what host memory is like.
struct Way {
  const char* name;
  Policy policy;
  enum Memory { kPinned, kStaged, kPageable } memory;
  bool again = false;  // after a pause of which some bytes are still good
};
inline const Way kHost = {"host", Policy::kHost, Way::kPinned};
inline const Way kDisk = {"disk", Policy::kDisk, Way::kPinned};
inline const Way kAuto = {"auto", Policy::kAuto, Way::kPinned};
inline const Way kWays[] = {kHost,
                            kDisk,
                            kAuto,
                            {"host again", Policy::kHost, Way::kPinned, true},
                            {"disk again", Policy::kDisk, Way::kPinned, true},
                            {"pageable through a stage", Policy::kHost, Way::kStaged},
                            {"pageable", Policy::kHost, Way::kPageable}};

// Some blocks go to the host and some to files under kAuto.
inline EvictionPlan PlanOf(const Way& way) {
  EvictionPlan plan;
  plan.chunk_bytes = 2_MiB;
  if (way.policy == Policy::kAuto) plan.host_bytes = 2_MiB;
  if (way.policy == Policy::kDisk) plan.disk_bytes = 10_MiB;
  return plan;
}

// Pauses and resumes once; then some of the bytes are others, and one slab has a new allocation.
inline void MakeBackups(ParkedProcess& p, const Way& way) {
  p.same_files = true;
  REQUIRE(p.Pause(way.policy, PlanOf(way)).result.ok());
  REQUIRE(p.Resume().result.ok());
  for (const size_t changed : {0u, 6u}) {
    p.app[changed].seed += 100;
    ParkedProcess::Fill(p.app[changed]);
  }
  p.app[5].seed = p.app[6].seed;  // the other place of the same memory
  p.Allocate(100'000, "b", 0);
}

// Slabs of 2 MiB, one for each tag and GPU, with little in each, because this runs hundreds of
// times.
inline std::unique_ptr<ParkedProcess> Start(const Way& way, int devices = 2) {
  auto p = std::make_unique<ParkedProcess>(FakeDriver::Options{.devices = devices});
  p->files_in_memory = true;
  p->Allocate(100_KiB, "a", 0);
  p->Allocate(50_KiB, "a", 0);
  p->Allocate(70'000, "b", devices - 1);
  p->Allocate(100_KiB, "c", 0);
  p->Allocate(5000, "c", devices - 1);
  // Mapped twice, and memory that its device may only read and that needs addresses to move by.
  p->MapOwn(0, 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  p->MapOwn(devices - 1, 1, CU_MEM_ACCESS_FLAGS_PROT_READ);
  if (way.again) MakeBackups(*p, way);
  if (way.memory == Way::kPinned) return p;
  // Pinning works for what is to be a stage, and never after that.
  const auto take = [&p](Bytes bytes) {
    REQUIRE(p->pool.Take(bytes, bytes, HostPool::For::kStage, Deadline::InMs(5000)).ok());
  };
  if (way.memory == Way::kStaged) take(4_MiB);
  p->fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, 1'000'000);
  take(6_MiB);
  return p;
}

// After whatever happened the process can be paused and resumed as if nothing had been.
inline void RequireWhole(ParkedProcess& p) {
  REQUIRE(p.Runs());
  REQUIRE(p.BytesRight());
  REQUIRE(p.OnlyKept());
  const auto paused = p.Pause(Policy::kHost).result;
  INFO((paused.ok() ? "" : paused.error().what));
  REQUIRE(paused.ok());
  REQUIRE(p.fake.handle_bytes() == 0);
  REQUIRE(p.Resume().result.ok());
  REQUIRE(p.Runs());
  REQUIRE(p.BytesRight());
  REQUIRE(p.fake.mistakes() == 0);
  const FakeDriver::Held held = p.fake.held();
  // What the last move has left for the next, for each GPU: a stream with 16 events to copy, one
  // with up to 16 to hash.
  const size_t gpus = p.contexts.List().size();
  REQUIRE(held.streams <= 2 * gpus);
  REQUIRE(held.events <= (16 + 16) * gpus);
  REQUIRE(held.modules <= gpus);
}

// A pause that was hit by one fault has either worked or left the process running.
inline void CheckAfterPause(ParkedProcess& p, const Freezer::Outcome& outcome) {
  if (outcome.result.ok()) {
    REQUIRE(p.Is(ProcessState::kPaused));
    REQUIRE(p.Resume().result.ok());
  }
  RequireWhole(p);
}

// A resume that was hit by one fault has either worked or left the process paused, as it was.
inline void CheckAfterResume(ParkedProcess& p, const Freezer::Outcome& outcome) {
  if (!outcome.result.ok()) {
    REQUIRE(p.Is(ProcessState::kPaused));
    REQUIRE(p.fake.handle_bytes() == 0);
    REQUIRE(p.Resume().result.ok());
  }
  RequireWhole(p);
}

// Set by the copy that is to be interrupted; the driver's functions carry no context.
inline struct AbortAt {
  Freezer* freezer = nullptr;
  int copies_left = 0;
  decltype(&cuMemcpyDtoHAsync_v2) real = nullptr;
} abort_at;

inline CUresult CountedCopy(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (--abort_at.copies_left == 0) abort_at.freezer->RequestAbort();
  return abort_at.real(to, from, bytes, stream);
}

// From now on the copies out of a new process are counted, and the one with which none is left asks
// for an abort; below 0: none does.
inline void CountCopies(ParkedProcess& p, int copies_left) {
  abort_at = {&p.freezer, copies_left, p.driver.memcpy_dtoh_async};
  p.driver.memcpy_dtoh_async = CountedCopy;
}

// Every single call is failed in a release build where bytes go to one tier; under `auto` and with
// pageable memory the same steps come again. A sanitizer looks for races and for what is freed
// twice or never, of which each kind of step shows its own; an emulator is slow.
#if defined(__SANITIZE_THREAD__)
inline const int kEvery = 23;
#elif defined(__SANITIZE_ADDRESS__)
inline const int kEvery = 11;
#else
inline const int kEvery = Emulated() ? 31 : 1;
#endif
inline int Step(const Way& way) {
  const bool one_tier = way.policy != Policy::kAuto && way.memory == Way::kPinned;
  return one_tier ? kEvery : 4 * kEvery;
}

}  // namespace parkade::shim
