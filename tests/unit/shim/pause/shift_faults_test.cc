// Backups that move, with something else at every step: another request, a fault of the disk, of
// the driver or of memory, a block that is wrong.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/unit/shim/pause/shifted.h"

namespace parkade::shim {
namespace {

TEST_CASE("whatever comes in the middle finds every block in one place") {
  for (const Place to : {Place::kHost, Place::kDisk}) {
    const Place from = to == Place::kHost ? Place::kDisk : Place::kHost;
    bool some = false, all_done = false;
    for (int n = 0; !all_done; ++n) {
      INFO("after " << n << " requests to the files");
      auto p = Paused(from);
      FaultyEngine::plan.fail_also = CountCompletion;
      completions_left = n;
      stop = n == 0;
      const Shifted shifted = Shift(*p, to);
      FaultyEngine::plan.fail_also = nullptr;
      stop = false;
      all_done = shifted.ok();
      const Bytes moved =
          to == Place::kHost ? shifted.stats().host_bytes : shifted.stats().disk_bytes;
      const Bytes left = shifted.stats().left_bytes;
      some |= moved != 0 && left != 0;
      if (!all_done) CHECK(shifted.reason() == "CANCELLED");
      CHECK((n != 0 || moved == 0));
      CHECK(Header(*p).host_backup_bytes == (to == Place::kHost ? moved : left));
      RequireComesBack(*p);
    }
    CHECK(some);
  }
}

TEST_CASE("every request to the files may fail, and the next attempt ends it") {
  int tried = 0;
  for (const Place to : {Place::kHost, Place::kDisk}) {
    const Place from = to == Place::kHost ? Place::kDisk : Place::kHost;
    for (const int os_errno : {EIO, ENOSPC, EFAULT}) {
      bool hit = true;
      for (int n = 1; hit; n += kEvery) {
        INFO("errno " << os_errno << " at request " << n);
        auto p = Paused(from);
        const Bytes all = Header(*p).host_backup_bytes + Header(*p).disk_backup_bytes;
        FaultyEngine::plan.error = OsError(os_errno, "moving");
        const int before = FaultyEngine::plan.completions;
        FaultyEngine::plan.fail_at = before + n;
        const Shifted shifted = Shift(*p, to);
        hit = FaultyEngine::plan.completions >= FaultyEngine::plan.fail_at;
        // Memory that the kernel refuses to touch is replaced.
        REQUIRE(shifted.ok() == (!hit || os_errno == EFAULT));
        if (!shifted.ok()) CHECK(shifted.outcome.result.error().os_errno == os_errno);
        CHECK(Header(*p).host_backup_bytes + Header(*p).disk_backup_bytes >= all);
        FaultyEngine::plan.fail_at = 0;
        if (n % 2 == 0) {
          REQUIRE(Shift(*p, to).ok());
          CHECK(Header(*p).host_backup_bytes == (to == Place::kHost ? all : 0));
        }
        RequireComesBack(*p);
        ++tried;
      }
    }
  }
  printf("shift: %d requests to files failed in turn\n", tried);
  CHECK(tried > 20 / kEvery);
}

TEST_CASE("a disk that hangs leaves every block where it was") {
  for (const Place to : {Place::kHost, Place::kDisk}) {
    auto p = Paused(to == Place::kHost ? Place::kDisk : Place::kHost);
    FaultyEngine::plan.stall_at = FaultyEngine::plan.completions + 2;
    CHECK(Shift(*p, to).reason() == "DISK_STALLED");
    FaultyEngine::plan.stall_at = 0;
    REQUIRE(p->Is(ProcessState::kPaused));
    REQUIRE(p->Resume().result.ok());
    CHECK(p->BytesRight());
  }
}

TEST_CASE("every driver call and every mapping of memory may fail on the way to host memory") {
  const char* const calls[] = {"cuCtxPushCurrent", "cuMemHostRegister", "cuCtxGetDevice"};
  int tried = 0;
  for (const char* name : calls) {
    auto clean = Paused(Place::kDisk);
    const int before = clean->fake.Calls(name);
    REQUIRE(Shift(*clean, Place::kHost).ok());
    const int count = clean->fake.Calls(name) - before;
    clean.reset();
    for (int n = 1; n <= count; n += kEvery) {
      INFO(name << " number " << n);
      auto p = Paused(Place::kDisk);
      p->fake.Fail(name, n, CUDA_ERROR_UNKNOWN);
      (void)Shift(*p, Place::kHost);  // memory that cannot be pinned will do as well
      p->fake.FaultPending(name);
      RequireComesBack(*p);
      ++tried;
    }
  }
  CHECK(tried > 0);
  for (int n = 1; n <= 3; ++n) {
    auto p = Paused(Place::kDisk);
    p->freezer.ReleaseHost();
    FaultyMemory::FailFrom(size_t(n));
    const Shifted shifted = Shift(*p, Place::kHost);
    CHECK((shifted.ok() || shifted.reason() == "HOST_MEMORY"));
    FaultyMemory::FailFrom(0);
    RequireComesBack(*p);
  }
}

TEST_CASE("a block that is wrong stays where it was, and all others move") {
  auto p = Paused(Place::kDisk);
  const Bytes all = Header(*p).disk_backup_bytes;
  const int fd = p->backups[0].get();
  char byte;
  REQUIRE(pread(fd, &byte, 1, 5000) == 1);
  const char changed = char(byte ^ 1);
  REQUIRE(pwrite(fd, &changed, 1, 5000) == 1);
  const Shifted found = Shift(*p, Place::kHost);
  CHECK(found.reason() == "BACKUP_CORRUPT");
  REQUIRE(found.wrong.size() == 1);
  CHECK(found.wrong[0].place == uint32_t(Place::kDisk));
  CHECK(found.wrong[0].offset <= 5000);
  CHECK(found.wrong[0].offset + found.wrong[0].bytes > 5000);
  CHECK(found.stats().wrong_blocks == 1);
  CHECK(found.stats().left_bytes == found.wrong[0].bytes);
  CHECK(found.stats().host_bytes == all - found.wrong[0].bytes);
  CHECK(std::string_view(p->Resume().result.error().reason) == "BACKUP_CORRUPT");
  REQUIRE(pwrite(fd, &byte, 1, 5000) == 1);
  RequireComesBack(*p);

  p.reset();
  p = Paused(Place::kDisk);
  const off_t size = lseek(p->backups[0].get(), 0, SEEK_END);
  std::string whole(size_t(size), '\0');
  REQUIRE(pread(p->backups[0].get(), whole.data(), whole.size(), 0) == size);
  REQUIRE(ftruncate(p->backups[0].get(), 0) == 0);
  const Shifted gone = Shift(*p, Place::kHost);
  CHECK(gone.reason() == "BACKUP_MISSING");
  CHECK(gone.stats().host_bytes == 0);
  CHECK(gone.wrong.size() == gone.stats().wrong_blocks);
  REQUIRE(pwrite(p->backups[0].get(), whole.data(), whole.size(), 0) == size);
  RequireComesBack(*p);
}

TEST_CASE("a block that has rotted in host memory is not written") {
  stop = false;
  ParkedProcess p;
  const CUdeviceptr buffer = p.Allocate(40_MiB);
  const std::string page(reinterpret_cast<const char*>(buffer) + 8_MiB, 4096);
  EvictionPlan plan;
  plan.host_bytes = 4_GiB;
  REQUIRE(p.Pause(Policy::kAuto, plan).result.ok());
  const auto places = FaultyMemory::Find(page.data(), page.size());
  REQUIRE(places.size() == 1);
  *places[0] ^= 1;
  const Shifted found = Shift(p, Place::kDisk);
  CHECK(found.reason() == "BACKUP_CORRUPT");
  REQUIRE(found.wrong.size() == 1);
  CHECK(found.wrong[0].address == buffer + 8_MiB);
  CHECK(found.wrong[0].place == uint32_t(Place::kHost));
  CHECK(found.stats().left_bytes == 2_MiB);
  CHECK(Header(p).host_backup_bytes == 2_MiB);
  CHECK(Header(p).disk_backup_bytes == 38_MiB);
  *places[0] ^= 1;
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

TEST_CASE("a pause that fails finds blocks that have two places whole") {
  int tried = 0;
  for (const char* name : {"cuMemcpyDtoHAsync", "cuMemUnmap", "cuLaunchKernel"}) {
    bool hit = true;
    for (int n = 1; hit; n += kEvery) {
      INFO(name << " number " << n);
      stop = false;
      auto p = Start(kDisk);
      p->same_files = true;
      EvictionPlan plan;
      plan.disk_bytes = 20_MiB;
      plan.host_bytes = 4_GiB;
      REQUIRE(p->Pause(Policy::kDisk, plan).result.ok());
      REQUIRE(Shift(*p, Place::kHost).ok());
      REQUIRE(p->Resume().result.ok());
      for (const size_t changed : {0u, 4u}) {
        p->app[changed].seed += 100;
        ParkedProcess::Fill(p->app[changed]);
      }
      p->fake.Fail(name, n, CUDA_ERROR_UNKNOWN);
      const auto outcome = p->Pause(Policy::kAuto, plan);
      hit = !p->fake.FaultPending(name);
      CheckAfterPause(*p, outcome);
      ++tried;
    }
  }
  CHECK(tried > 3);
}

}  // namespace
}  // namespace parkade::shim
