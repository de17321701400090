// Backups that are not what was stored: nothing wrong is ever let back in, and nothing is lost.
#include <unistd.h>

#include <functional>
#include <string>

#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

using wire::Policy;
using wire::ProcessState;

// Changes one byte in a file whose description may be open for direct I/O.
void FlipInFile(const Fd& file, uint64_t offset) {
  alignas(4096) static char page[4096];
  const off_t at = off_t(offset / 4096 * 4096);
  REQUIRE(pread(file.get(), page, sizeof page, at) == ssize_t(sizeof page));
  page[offset % 4096] ^= 0x40;
  REQUIRE(pwrite(file.get(), page, sizeof page, at) == ssize_t(sizeof page));
}

wire::LedgerHeader LedgerOf(const ParkedProcess& p) {
  auto header = wire::ReadLedgerHeader(p.ledger->fd());
  REQUIRE(header.ok());
  return *header;
}

// The resume is refused with `reason`; the process is paused with all it had, twice over.
void RequireRefused(ParkedProcess& p, std::string_view reason) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto before = LedgerOf(p);
    const auto refused = p.Resume();
    REQUIRE_FALSE(refused.result.ok());
    INFO(refused.result.error().what);
    REQUIRE(refused.result.error().code == Code::kDataLoss);
    REQUIRE(std::string_view(refused.result.error().reason) == reason);
    REQUIRE(refused.device >= 0);
    REQUIRE(p.Is(ProcessState::kPaused));
    REQUIRE(p.fake.handle_bytes() == 0);
    const auto after = LedgerOf(p);
    REQUIRE(after.disk_backup_bytes == before.disk_backup_bytes);
    REQUIRE(after.host_backup_bytes == before.host_backup_bytes);
  }
}

void RequireResumes(ParkedProcess& p) {
  REQUIRE(p.Resume().result.ok());
  REQUIRE(p.Runs());
  REQUIRE(p.BytesRight());
  REQUIRE(p.OnlyKept());
  REQUIRE(p.fake.mistakes() == 0);
  const auto ledger = LedgerOf(p);
  REQUIRE(ledger.disk_backup_bytes == 0);
  REQUIRE(ledger.host_backup_bytes == 0);
}

TEST_CASE("a byte that has changed in a backup file is found, wherever it stands") {
  ParkedProcess p({.devices = 2});
  p.file_count = 2;
  p.Allocate(34_MiB, "a", 0);
  p.Allocate(700'000, "a", 1);
  p.Allocate(3_MiB, "b", 1);
  int found = 0;
  for (const uint64_t at : {0ull, 1ull, 4095ull, (2ull << 20) - 1, 2ull << 20, 5'000'001ull}) {
    for (size_t file = 0; file < 2; ++file) {
      INFO("byte " << at << " of file " << file);
      REQUIRE(p.Pause(Policy::kDisk).result.ok());
      FlipInFile(p.backups[file], at);
      RequireRefused(p, "BACKUP_CORRUPT");
      FlipInFile(p.backups[file], at);
      RequireResumes(p);
      ++found;
    }
  }
  printf("files: %d changed bytes found\n", found);
}

TEST_CASE("the error about a backup names address, device, file and offset") {
  ParkedProcess p;
  const CUdeviceptr ptr = p.Allocate(40_MiB);
  REQUIRE(p.Pause(Policy::kDisk).result.ok());
  FlipInFile(p.backups[0], 10_MiB + 5);
  const auto refused = p.Resume();
  REQUIRE_FALSE(refused.result.ok());
  char wanted[208];
  snprintf(wanted, sizeof wanted,
           "the backup of 0x%llx on device 0 is not what was stored: 2097152 bytes in file 0 at "
           "10485760",
           (unsigned long long)(ptr + 10_MiB));
  CHECK(std::string_view(refused.result.error().what) == wanted);
  FlipInFile(p.backups[0], 10_MiB + 5);
  RequireResumes(p);
}

TEST_CASE("blocks that have changed places in a file are found") {
  ParkedProcess p;
  p.Allocate(40_MiB);
  REQUIRE(p.Pause(Policy::kDisk).result.ok());
  alignas(4096) static char a[4096], b[4096];
  REQUIRE(pread(p.backups[0].get(), a, 4096, 0) == 4096);
  REQUIRE(pread(p.backups[0].get(), b, 4096, 4 << 20) == 4096);
  REQUIRE(pwrite(p.backups[0].get(), b, 4096, 0) == 4096);
  REQUIRE(pwrite(p.backups[0].get(), a, 4096, 4 << 20) == 4096);
  RequireRefused(p, "BACKUP_CORRUPT");
  REQUIRE(pwrite(p.backups[0].get(), a, 4096, 0) == 4096);
  REQUIRE(pwrite(p.backups[0].get(), b, 4096, 4 << 20) == 4096);
  RequireResumes(p);
}

TEST_CASE("a backup file that was cut short stays a refusal until its bytes are back") {
  ParkedProcess p;
  p.Allocate(40_MiB);
  REQUIRE(p.Pause(Policy::kDisk).result.ok());
  std::vector<char> whole(40_MiB);
  alignas(4096) static char page[4096];
  for (Bytes at = 0; at < whole.size(); at += 4096) {
    REQUIRE(pread(p.backups[0].get(), page, 4096, off_t(at)) == 4096);
    memcpy(&whole[at], page, 4096);
  }
  for (const Bytes kept : {20_MiB + 100, Bytes(0)}) {
    REQUIRE(ftruncate(p.backups[0].get(), off_t(kept)) == 0);
    RequireRefused(p, "BACKUP_MISSING");
  }
  REQUIRE(ftruncate(p.backups[0].get(), 40 << 20) == 0);
  RequireRefused(p, "BACKUP_CORRUPT");  // zeros are not what was there
  for (Bytes at = 0; at < whole.size(); at += 4096) {
    memcpy(page, &whole[at], 4096);
    REQUIRE(pwrite(p.backups[0].get(), page, 4096, off_t(at)) == 4096);
  }
  RequireResumes(p);
}

// Flips the first byte of every copy of a buffer's page in host memory.
int FlipInMemory(const std::vector<char*>& pages) {
  for (char* page : pages) *page ^= 0x40;
  return int(pages.size());
}

TEST_CASE("a byte that has changed in host memory is found, pinned or not") {
  for (const bool pins : {true, false}) {
    INFO("pinned " << pins);
    ParkedProcess p;
    const CUdeviceptr ptr = p.Allocate(36_MiB);
    p.Allocate(3_MiB);
    if (!pins) p.fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, 1'000'000);
    for (const Bytes at : {Bytes(0), 2_MiB, 33_MiB, 36_MiB - 4096}) {
      char page[256];
      memcpy(page, reinterpret_cast<const char*>(ptr) + at, sizeof page);
      REQUIRE(p.Pause(Policy::kHost).result.ok());
      CHECK((p.pool.pinned() != 0) == pins);
      const auto found = FaultyMemory::Find(page, sizeof page);
      REQUIRE(FlipInMemory(found) > 0);
      RequireRefused(p, "BACKUP_CORRUPT");
      FlipInMemory(found);
      RequireResumes(p);
    }
    p.fake.FaultPending("cuMemHostRegister");
  }
}

TEST_CASE("an allocation whose backup is lost can be freed, and the others come back") {
  ParkedProcess p;
  p.Allocate(34_MiB);
  p.Allocate(35_MiB);
  REQUIRE(p.Pause(Policy::kDisk).result.ok());
  FlipInFile(p.backups[0], 1_MiB);
  RequireRefused(p, "BACKUP_CORRUPT");
  const std::string what = p.Resume().result.error().what;
  const CUdeviceptr named = std::stoull(what.substr(what.find("0x")), nullptr, 16);
  const auto lost = std::find_if(p.app.begin(), p.app.end(), [named](const auto& buffer) {
    return named >= buffer.ptr && named < buffer.ptr + buffer.bytes;
  });
  REQUIRE(lost != p.app.end());
  CUresult result = CUDA_ERROR_UNKNOWN;
  REQUIRE(p.heap.Free(lost->ptr, &result));
  REQUIRE(result == CUDA_SUCCESS);
  p.app.erase(lost);
  RequireResumes(p);
}

TEST_CASE("the ledger's backups shrink when what is paused is freed") {
  for (const Policy policy : {Policy::kHost, Policy::kDisk}) {
    ParkedProcess p;
    const CUdeviceptr gone = p.Allocate(34_MiB);
    p.Allocate(36_MiB);
    REQUIRE(p.Pause(policy).result.ok());
    const auto backup = [&] {
      const auto ledger = LedgerOf(p);
      CHECK((policy == Policy::kHost ? ledger.disk_backup_bytes : ledger.host_backup_bytes) == 0);
      return policy == Policy::kHost ? ledger.host_backup_bytes : ledger.disk_backup_bytes;
    };
    CHECK(backup() == 70_MiB);
    CUresult result = CUDA_ERROR_UNKNOWN;
    REQUIRE(p.heap.Free(gone, &result));
    CHECK(backup() == 36_MiB);
    p.app.erase(p.app.begin());
    RequireResumes(p);
  }
}

// Set by a test: what happens at an unmap; the driver's functions carry no context.
struct AtUnmap {
  int left = 0;
  std::function<void()> call;
  decltype(&cuMemUnmap) real = nullptr;
} at_unmap;

CUresult FailingUnmap(CUdeviceptr ptr, size_t bytes) {
  if (at_unmap.left == 0 || --at_unmap.left != 0) return at_unmap.real(ptr, bytes);
  at_unmap.call();
  return CUDA_ERROR_UNKNOWN;
}

TEST_CASE("an undo whose backup has changed is partly moved, and ends once it is repaired") {
  ParkedProcess p;
  p.Allocate(34_MiB);
  p.Allocate(36_MiB);
  std::vector<std::string> heads;
  for (const auto& buffer : p.app) heads.emplace_back(reinterpret_cast<char*>(buffer.ptr), 256);
  std::vector<char*> flipped;
  const auto flip_all = [&] {
    for (const std::string& head : heads) {
      const auto found = FaultyMemory::Find(head.data(), head.size());
      flipped.insert(flipped.end(), found.begin(), found.end());
    }
    FlipInMemory(flipped);
  };
  at_unmap = {2, flip_all, p.driver.mem_unmap};
  p.driver.mem_unmap = FailingUnmap;
  REQUIRE_FALSE(p.Pause(Policy::kHost).result.ok());
  at_unmap.left = 0;
  REQUIRE_FALSE(flipped.empty());
  REQUIRE(p.Is(ProcessState::kPartlyMoved));
  const auto refused = p.Resume();
  REQUIRE_FALSE(refused.result.ok());
  CHECK(std::string_view(refused.result.error().reason) == "BACKUP_CORRUPT");
  REQUIRE(p.Is(ProcessState::kPartlyMoved));
  FlipInMemory(flipped);
  RequireResumes(p);
}

}  // namespace
}  // namespace parkade::shim
