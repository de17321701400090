// One changed byte at every place of a backup: whether the resume finds it, and goes on without it.
#include <cstdio>
#include <optional>
#include <string>

#include "tests/unit/shim/pause/fault_ways.h"

namespace parkade::shim {
namespace {

// The file and the offset at which a page of a backup lies.
std::optional<std::pair<size_t, uint64_t>> FindInFiles(const ParkedProcess& p,
                                                       const std::string& page) {
  alignas(4096) static char found[4096];
  for (size_t file = 0; file < p.backups.size(); ++file) {
    for (uint64_t at = 0; pread(p.backups[file].get(), found, 4096, off_t(at)) == 4096;
         at += 4096) {
      if (memcmp(found, page.data(), 4096) == 0) return std::pair(file, at);
    }
  }
  return std::nullopt;
}

void FlipInFile(const Fd& file, uint64_t offset) {
  alignas(4096) static char page[4096];
  REQUIRE(pread(file.get(), page, sizeof page, off_t(offset)) == ssize_t(sizeof page));
  page[0] ^= 1;
  REQUIRE(pwrite(file.get(), page, sizeof page, off_t(offset)) == ssize_t(sizeof page));
}

TEST_CASE("every block of every backup may have changed") {
  int tried = 0;
  for (const Way& way : kWays) {
    auto p = Start(way);
    std::vector<std::string> pages;  // one of each 64 KiB of the application's bytes
    for (const auto& buffer : p->app) {
      const auto* bytes = reinterpret_cast<const char*>(buffer.ptr);
      const Bytes first = RoundUp(buffer.ptr, 4096) - buffer.ptr;
      for (Bytes at = first; at + 4096 <= buffer.bytes; at += 64_KiB * Step(way)) {
        pages.emplace_back(bytes + at, 4096);
      }
    }
    for (const std::string& page : pages) {
      INFO(way.name << ", page " << tried);
      REQUIRE(p->Pause(way.policy, PlanOf(way)).result.ok());
      std::vector<char*> changed = FaultyMemory::Find(page.data(), page.size());
      for (char* where : changed) *where ^= 1;
      const auto in_file = FindInFiles(*p, page);
      if (in_file) FlipInFile(p->backups[in_file->first], in_file->second);
      REQUIRE((in_file || !changed.empty()));
      const auto outcome = p->Resume();
      REQUIRE_FALSE(outcome.result.ok());
      REQUIRE(std::string_view(outcome.result.error().reason) == "BACKUP_CORRUPT");
      REQUIRE(p->Is(ProcessState::kPaused));
      REQUIRE(p->fake.handle_bytes() == 0);
      for (char* where : changed) *where ^= 1;
      if (in_file) FlipInFile(p->backups[in_file->first], in_file->second);
      REQUIRE(p->Resume().result.ok());
      REQUIRE(p->BytesRight());
      ++tried;
    }
    RequireWhole(*p);
  }
  printf("backups: %d changed bytes refused\n", tried);
  CHECK(tried > 100 / kEvery);
}

}  // namespace
}  // namespace parkade::shim
