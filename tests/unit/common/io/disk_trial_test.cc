// A trial of a disk ends in time and says what can be used.
#include "common/io/disk_trial.h"

#include <catch2/catch.hpp>

#include "common/io/direct_files.h"
#include "common/io/page_cache.h"
#include "tests/unit/common/io/pthread_starter.h"
#include "tests/unit/common/io/temporary_file.h"

namespace parkade {
namespace {

TEST_CASE("a trial finds a setting, with the rates that it was chosen by") {
  Fd file = TemporaryFile(0);
  const Fd same(dup(file.get()));
  const auto rates = TryDisk(std::move(file), std::make_unique<PthreadStarter>(), 300);
  REQUIRE(rates.ok());
  CHECK(rates->setting.block % kDirectAlign == 0);
  CHECK(rates->setting.block > 0);
  CHECK(rates->setting.depth >= 1);
  if (!rates->direct) return;  // the build folder's file system has no direct I/O
  CHECK(rates->write_gbps > 0);
  CHECK(rates->read_gbps > 0);
  CHECK(CachedBytes(same.get(), 0, kTrialBytes) == Bytes(0));
}

TEST_CASE("without time there is one candidate's answer, and without room an error") {
  const auto rates = TryDisk(TemporaryFile(0), std::make_unique<PthreadStarter>(), 0);
  REQUIRE(rates.ok());
  CHECK(rates->setting.block == DiskSetting().block);

  const Fd file = TemporaryFile(0);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file.get());
  Fd read_only(open(path, O_RDONLY | O_CLOEXEC));
  CHECK_FALSE(TryDisk(std::move(read_only), std::make_unique<PthreadStarter>(), 100).ok());
}

TEST_CASE("where files are memory no rate of a disk is claimed") {
  const auto rates = TryDisk(MemoryFile(0), std::make_unique<PthreadStarter>(), 100);
  REQUIRE(rates.ok());
  CHECK_FALSE(rates->direct);
  CHECK(rates->write_gbps == 0);
}

}  // namespace
}  // namespace parkade
