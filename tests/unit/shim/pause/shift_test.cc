// Backups that move between files and host memory while their process stays paused.
#include <utility>

#include "tests/unit/shim/pause/shifted.h"

namespace parkade::shim {
namespace {

TEST_CASE("backups on disk come to host memory, and the resume reads no file") {
  auto p = Paused(Place::kDisk);
  const Bytes all = Header(*p).disk_backup_bytes;
  const size_t records = RecordsAt(*p, Place::kDisk);
  const Shifted shifted = Shift(*p, Place::kHost);
  REQUIRE(shifted.ok());
  CHECK(shifted.stats().host_bytes == all);
  CHECK(shifted.stats().left_bytes == 0);
  CHECK(Header(*p).host_backup_bytes == all);
  CHECK(Header(*p).disk_backup_bytes == all);  // they keep their places there
  CHECK(Header(*p).moved_bytes == all);
  CHECK(RecordsAt(*p, Place::kHost) == records);
  const int reads = FaultyEngine::plan.completions;
  REQUIRE(p->Resume().result.ok());
  CHECK(FaultyEngine::plan.completions == reads);
  CHECK(p->BytesRight());

  // Nothing has changed since: the next pause to the disk writes nothing and lets the memory go.
  p->same_files = true;
  EvictionPlan plan;
  plan.disk_bytes = 20_MiB;
  const auto again = p->Pause(Policy::kDisk, plan);
  REQUIRE(again.result.ok());
  CHECK(again.stats.disk_bytes == 0);
  CHECK(Header(*p).disk_backup_bytes == all);
  CHECK(Header(*p).host_backup_bytes == 0);
  RequireComesBack(*p);
}

TEST_CASE("as much comes to host memory as was granted") {
  auto p = Paused(Place::kDisk);
  const Bytes all = Header(*p).disk_backup_bytes;
  const Shifted part = Shift(*p, Place::kHost, 2_MiB);
  REQUIRE(part.ok());
  CHECK(part.stats().host_bytes > 0);
  CHECK(part.stats().host_bytes <= 2_MiB);
  CHECK(part.stats().host_bytes + part.stats().left_bytes == all);
  CHECK(Header(*p).host_backup_bytes == part.stats().host_bytes);
  CHECK(RecordsAt(*p, Place::kDisk) > 0);
  CHECK(Shift(*p, Place::kHost, 0).stats().host_bytes == 0);
  const Shifted rest = Shift(*p, Place::kHost);
  REQUIRE(rest.ok());
  CHECK(rest.stats().host_bytes == part.stats().left_bytes);
  CHECK(RecordsAt(*p, Place::kDisk) == 0);
  CHECK(Shift(*p, Place::kHost).stats().host_bytes == 0);  // there is nothing left to do
  RequireComesBack(*p);
}

TEST_CASE("backups in host memory go on to the files, and their memory to the pool") {
  auto p = Paused(Place::kHost);
  const Bytes all = Header(*p).host_backup_bytes;
  CHECK(Header(*p).disk_backup_bytes == 0);
  const Bytes held = p->pool.held();
  const Shifted shifted = Shift(*p, Place::kDisk);
  REQUIRE(shifted.ok());
  CHECK(shifted.stats().disk_bytes == all);
  CHECK(shifted.stats().left_bytes == 0);
  CHECK(Header(*p).disk_backup_bytes == all);
  CHECK(Header(*p).host_backup_bytes == 0);
  CHECK(RecordsAt(*p, Place::kHost) == 0);
  CHECK(p->pool.used() == 0);
  CHECK(p->pool.held() >= held);
  RequireComesBack(*p);
}

TEST_CASE("requests to the disk do not wait for each other") {
  stop = false;
  ParkedProcess p;
  p.Allocate(64_MiB);
  EvictionPlan plan;
  plan.host_bytes = 4_GiB;
  REQUIRE(p.Pause(Policy::kAuto, plan).result.ok());
  for (const Place to : {Place::kDisk, Place::kHost}) {
    FaultyEngine::plan.deepest = 0;
    REQUIRE(Shift(p, to).ok());
    CHECK(FaultyEngine::plan.deepest >= 4);
  }
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

TEST_CASE("what has come from the files goes back there without a write") {
  auto p = Paused(Place::kHost);
  REQUIRE(Shift(*p, Place::kDisk).ok());
  REQUIRE(Shift(*p, Place::kHost).ok());
  const Bytes all = Header(*p).host_backup_bytes;
  const int writes = FaultyEngine::plan.completions;
  const Shifted back = Shift(*p, Place::kDisk);
  REQUIRE(back.ok());
  CHECK(back.stats().disk_bytes == 0);
  CHECK(back.stats().elided_bytes == all);
  CHECK(FaultyEngine::plan.completions == writes);
  CHECK(Header(*p).host_backup_bytes == 0);
  RequireComesBack(*p);
}

TEST_CASE("a tag that is for host memory stays there, and without files nothing can move on") {
  auto p = Start(kAuto);
  EvictionPlan plan;
  plan.host_bytes = 4_GiB;
  plan.disk_bytes = 20_MiB;
  const wire::TagPolicy stays = ParkedProcess::Tag("a", Policy::kHost);
  plan.tags = {&stays, 1};
  REQUIRE(p->Pause(Policy::kAuto, plan).result.ok());
  const Shifted shifted = Shift(*p, Place::kDisk);
  REQUIRE(shifted.ok());
  CHECK(Header(*p).host_backup_bytes >= 150_KiB);
  CHECK(Header(*p).host_backup_bytes < 200_KiB);
  CHECK(Header(*p).disk_backup_bytes == shifted.stats().disk_bytes);
  CHECK(RecordsAt(*p, Place::kHost) == 2);
  RequireComesBack(*p);

  p.reset();
  p = Start(kHost);
  CHECK(Shift(*p, Place::kDisk).reason() == "NOT_PAUSED");
  REQUIRE(p->Pause(Policy::kHost, PlanOf(kHost)).result.ok());
  CHECK(Shift(*p, Place::kDisk).stats().disk_bytes == 0);
  CHECK(Shift(*p, Place::kHost).stats().host_bytes == 0);
  RequireComesBack(*p);
}

TEST_CASE("blocks are cut where the files have no room for them in one piece") {
  for (const int files : {1, 3}) {
    INFO(files << " files");
    stop = false;
    ParkedProcess p;
    p.file_count = files;
    p.Allocate(9_MiB);
    p.Allocate(20_MiB);
    p.Allocate(300_KiB, "small");
    EvictionPlan plan;
    plan.host_bytes = 4_GiB;
    REQUIRE(p.Pause(Policy::kAuto, plan).result.ok());  // files of what it says, not a block more
    const Bytes all = Header(p).host_backup_bytes;
    const Shifted shifted = Shift(p, Place::kDisk);
    REQUIRE(shifted.ok());
    CHECK(shifted.stats().disk_bytes == all);
    CHECK(Header(p).host_backup_bytes == 0);
    REQUIRE(Shift(p, Place::kHost).ok());
    CHECK(Header(p).host_backup_bytes == all);
    REQUIRE(p.Resume().result.ok());
    CHECK(p.BytesRight());
  }
}

TEST_CASE("where the files are too small, what fits has moved") {
  auto p = Start(kAuto);
  EvictionPlan plan;
  plan.host_bytes = 4_GiB;
  plan.disk_bytes = 2_MiB;
  REQUIRE(p->Pause(Policy::kAuto, plan).result.ok());
  const Bytes all = Header(*p).host_backup_bytes;
  const Shifted shifted = Shift(*p, Place::kDisk);
  CHECK(shifted.reason() == "DISK_SPACE");
  CHECK(Header(*p).disk_backup_bytes == 2_MiB);
  CHECK(shifted.stats().left_bytes == all - 2_MiB);
  CHECK(Header(*p).host_backup_bytes == all - 2_MiB);
  RequireComesBack(*p);
}

TEST_CASE("after a write-behind only what has changed goes to host memory again") {
  stop = false;
  ParkedProcess p;
  p.same_files = true;
  p.Allocate(40_MiB);
  p.Allocate(64_MiB);
  EvictionPlan plan;
  plan.host_bytes = 4_GiB;
  plan.disk_bytes = 160_MiB;
  REQUIRE(p.Pause(Policy::kAuto, plan).result.ok());
  REQUIRE(Shift(p, Place::kDisk).ok());
  REQUIRE(p.Resume().result.ok());
  CHECK(Header(p).disk_retained_bytes == 104_MiB);
  p.app[0].seed = 77;
  ParkedProcess::Fill(p.app[0]);
  const auto again = p.Pause(Policy::kAuto, plan);
  REQUIRE(again.result.ok());
  CHECK(again.stats.host_bytes == 40_MiB);
  CHECK(again.stats.disk_bytes == 0);
  CHECK(again.stats.elided_bytes == 64_MiB);
  const Shifted shifted = Shift(p, Place::kDisk);
  REQUIRE(shifted.ok());
  CHECK(shifted.stats().disk_bytes == 40_MiB);
  // Prefetched and resumed, they have two places each; the one that changes goes on to the host.
  REQUIRE(Shift(p, Place::kHost).ok());
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
  p.app[1].seed = 78;
  ParkedProcess::Fill(p.app[1]);
  const auto third = p.Pause(Policy::kAuto, plan);
  REQUIRE(third.result.ok());
  CHECK(third.stats.host_bytes == 64_MiB);
  CHECK(third.stats.elided_bytes == 40_MiB);
  const Shifted last = Shift(p, Place::kDisk);
  REQUIRE(last.ok());
  CHECK(last.stats().disk_bytes == 64_MiB);
  CHECK(last.stats().elided_bytes == 40_MiB);
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

TEST_CASE(
    "what is kept in files of memory that is in use is not believed once others may be there") {
  stop = false;
  ParkedProcess p;
  p.same_files = true;
  p.Allocate(40_MiB, "a");
  p.Allocate(40_MiB, "b");
  EvictionPlan plan;
  plan.host_bytes = 4_GiB;
  plan.disk_bytes = 80_MiB;
  REQUIRE(p.Pause(Policy::kDisk, plan).result.ok());
  Freezer::Part part;
  part.tags = {"a"};
  part.mode = wire::GateMode::kClosed;
  REQUIRE(p.freezer.Resume(3, 0, part).result.ok());  // keeps its backup in the file
  p.Allocate(40_MiB, "c");
  const wire::TagPolicy keeps = ParkedProcess::Tag("a", Policy::kKeep);
  plan.tags = {&keeps, 1};
  REQUIRE(p.Pause(Policy::kAuto, plan).result.ok());
  REQUIRE(Shift(p, Place::kDisk).ok());  // to where the kept backup was
  plan.tags = {};
  plan.disk_bytes = 160_MiB;
  REQUIRE(p.Pause(Policy::kAuto, plan).result.ok());
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

TEST_CASE("what is freed while its backup moves goes when that has ended") {
  stop = false;
  ParkedProcess p;
  const CUdeviceptr freed = p.Allocate(64_MiB);
  p.Allocate(40_MiB);
  REQUIRE(p.Pause(Policy::kDisk).result.ok());
  static ParkedProcess* process;
  static CUdeviceptr to_free;
  process = &p;
  to_free = freed;
  FaultyEngine::plan.fail_also = [](const void*) {
    CUresult result;
    if (to_free != 0) process->heap.Free(std::exchange(to_free, 0), &result);
    return false;
  };
  REQUIRE(Shift(p, Place::kHost).ok());
  FaultyEngine::plan.fail_also = nullptr;
  p.app.erase(p.app.begin());
  CHECK(Header(p).host_backup_bytes == 40_MiB);
  CHECK(p.pool.used() == 40_MiB);
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

}  // namespace
}  // namespace parkade::shim
