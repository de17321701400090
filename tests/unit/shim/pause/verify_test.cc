// Backups that are read without a resume: whole ones, changed ones, and ones that are gone.
#include <unistd.h>

#include <cstring>
#include <optional>

#include "tests/unit/shim/pause/fault_ways.h"

namespace parkade::shim {
namespace {

struct Read {
  Freezer::Outcome outcome;
  std::vector<wire::WrongBlock> wrong;
  std::string_view reason() const {
    return outcome.result.ok() ? "" : outcome.result.error().reason;
  }
};

Read Verify(ParkedProcess& p, bool stopped = false) {
  const std::atomic<bool> stop{stopped};
  Read read;
  read.outcome = p.freezer.Verify(9, stop, &read.wrong);
  return read;
}

Bytes SumOf(const wire::Stats& stats) {
  return stats.host_bytes + stats.disk_bytes + stats.elided_bytes;
}

TEST_CASE("backups of every tier are read whole, and the process stays as it was") {
  for (const Way& way : kWays) {
    INFO(way.name);
    auto p = Start(way);
    REQUIRE(p->Pause(way.policy, PlanOf(way)).result.ok());
    const auto before = *wire::ReadLedgerHeader(p->ledger->fd());
    const Read read = Verify(*p);
    REQUIRE(read.outcome.result.ok());
    CHECK(read.wrong.empty());
    CHECK(read.outcome.stats.wrong_blocks == 0);
    CHECK(read.outcome.stats.host_bytes == before.host_backup_bytes);
    CHECK(read.outcome.stats.disk_bytes == before.disk_backup_bytes);
    CHECK(SumOf(read.outcome.stats) > 300_KiB);
    CHECK(p->Is(ProcessState::kPaused));
    CHECK(p->fake.handle_bytes() == 0);
    const auto after = *wire::ReadLedgerHeader(p->ledger->fd());
    CHECK(after.host_backup_bytes == before.host_backup_bytes);
    CHECK(after.disk_backup_bytes == before.disk_backup_bytes);
    CHECK(after.op_id == 0);
    REQUIRE(p->Resume().result.ok());
    CHECK(p->BytesRight());
  }
}

TEST_CASE("a changed byte in host memory is found with its address") {
  auto p = Start(kHost);
  const auto& buffer = p->app[2];
  const Bytes first = RoundUp(buffer.ptr, 4096) - buffer.ptr;
  const std::string page(reinterpret_cast<const char*>(buffer.ptr) + first, 4096);
  REQUIRE(p->Pause(Policy::kHost, PlanOf(kHost)).result.ok());
  const auto places = FaultyMemory::Find(page.data(), page.size());
  REQUIRE_FALSE(places.empty());
  for (char* where : places) *where ^= 1;
  const Read read = Verify(*p);
  CHECK(read.reason() == "BACKUP_CORRUPT");
  CHECK(read.outcome.result.error().code == Code::kDataLoss);
  REQUIRE(read.wrong.size() == 1);
  CHECK(read.outcome.stats.wrong_blocks == 1);
  const wire::WrongBlock& wrong = read.wrong[0];
  CHECK(wrong.place == uint32_t(wire::Place::kHost));
  CHECK(wrong.missing == 0);
  CHECK(wrong.address / 2_MiB == buffer.ptr / 2_MiB);  // they lie in a slab of 2 MiB
  CHECK(p->Is(ProcessState::kPaused));
  // All the rest was read as well.
  CHECK(read.outcome.stats.host_bytes ==
        wire::ReadLedgerHeader(p->ledger->fd())->host_backup_bytes);
  for (char* where : places) *where ^= 1;
  CHECK(Verify(*p).outcome.result.ok());
  REQUIRE(p->Resume().result.ok());
  CHECK(p->BytesRight());
}

TEST_CASE("a changed byte in a file is found with file and offset, and a file that is gone") {
  auto p = Start(kDisk);
  REQUIRE(p->Pause(Policy::kDisk, PlanOf(kDisk)).result.ok());
  const int fd = p->backups[0].get();
  char byte;
  REQUIRE(pread(fd, &byte, 1, 5000) == 1);
  const char changed = char(byte ^ 1);
  REQUIRE(pwrite(fd, &changed, 1, 5000) == 1);
  const Read read = Verify(*p);
  CHECK(read.reason() == "BACKUP_CORRUPT");
  REQUIRE(read.wrong.size() == 1);
  CHECK(read.wrong[0].place == uint32_t(wire::Place::kDisk));
  CHECK(read.wrong[0].file == 0);
  CHECK(read.wrong[0].offset <= 5000);
  CHECK(read.wrong[0].offset + read.wrong[0].bytes > 5000);
  REQUIRE(pwrite(fd, &byte, 1, 5000) == 1);

  const off_t size = lseek(fd, 0, SEEK_END);
  std::string whole(size_t(size), '\0');
  REQUIRE(pread(fd, whole.data(), whole.size(), 0) == size);
  REQUIRE(ftruncate(fd, 0) == 0);
  const Read gone = Verify(*p);
  CHECK(gone.reason() == "BACKUP_MISSING");
  CHECK(gone.outcome.stats.disk_bytes == 0);
  CHECK(gone.outcome.stats.wrong_blocks > 1);
  CHECK(gone.wrong.size() == gone.outcome.stats.wrong_blocks);
  for (const wire::WrongBlock& block : gone.wrong) CHECK(block.missing == 1);
  CHECK(p->Is(ProcessState::kPaused));
  REQUIRE(pwrite(fd, whole.data(), whole.size(), 0) == size);
  REQUIRE(Verify(*p).outcome.result.ok());
  REQUIRE(p->Resume().result.ok());
  CHECK(p->BytesRight());
}

TEST_CASE("what is one pattern is checked without having been stored") {
  ParkedProcess p;
  const CUdeviceptr zeros = p.Allocate(8_MiB);
  memset(reinterpret_cast<void*>(zeros), 0, 8_MiB);
  p.app.clear();
  p.Allocate(4_MiB);
  REQUIRE(p.Pause(Policy::kHost).result.ok());
  const Read read = Verify(p);
  REQUIRE(read.outcome.result.ok());
  CHECK(SumOf(read.outcome.stats) >= 12_MiB);
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

TEST_CASE("reading ends when something else is to be done, and begins only where bytes are out") {
  auto p = Start(kDisk);
  CHECK(Verify(*p).reason() == "NOT_PAUSED");
  REQUIRE(p->Pause(Policy::kDisk, PlanOf(kDisk)).result.ok());
  CHECK(Verify(*p, true).reason() == "CANCELLED");
  CHECK(p->Is(ProcessState::kPaused));
  REQUIRE(p->Resume().result.ok());
  CHECK(p->BytesRight());
  RequireWhole(*p);
}

TEST_CASE("what is freed while bytes are out is not read") {
  ParkedProcess p;
  const CUdeviceptr freed = p.Allocate(64_MiB);
  p.Allocate(40_MiB);
  REQUIRE(p.Pause(Policy::kHost).result.ok());
  const Bytes all = SumOf(Verify(p).outcome.stats);
  CUresult result = CUDA_ERROR_UNKNOWN;
  REQUIRE(p.heap.Free(freed, &result));
  REQUIRE(result == CUDA_SUCCESS);
  p.app.erase(p.app.begin());
  const Read read = Verify(p);
  REQUIRE(read.outcome.result.ok());
  CHECK(SumOf(read.outcome.stats) + 64_MiB == all);
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

}  // namespace
}  // namespace parkade::shim
