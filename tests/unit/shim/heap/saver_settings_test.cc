// What the environment and the program say of regions: tests/unit/shim/heap/CMakeLists.txt has the
// variables.
#include "shim/heap/saver_settings.h"

#include <catch2/catch.hpp>
#include <thread>

#include "common/text.h"

namespace parkade::shim {
namespace {

TEST_CASE("a thread begins as the environment says, and what is neither yes nor no is a no") {
  std::thread([] {
    const SaverSettings::Thread& mine = SaverSettings::Mine();
    CHECK(mine.region);
    CHECK_FALSE(mine.cpu_backup);
    CHECK(mine.disk_backup);
    CHECK(mine.pageable);
    CHECK(ReadText(mine.tag) == "default");
    CHECK(mine.saving() == Saving::kDisk);
  }).join();
  CHECK(SaverSettings::chunk() == 64_MiB);
  CHECK(SaverSettings::margin() == 0);
}

TEST_CASE("what a thread sets is its own") {
  SaverSettings::Thread& mine = SaverSettings::Mine();
  mine.region = mine.disk_backup = false;
  std::thread([] {
    CHECK(SaverSettings::Mine().region);
    CHECK(SaverSettings::Mine().saving() == Saving::kDisk);
  }).join();
  CHECK_FALSE(SaverSettings::Mine().region);
  CHECK(mine.saving() == Saving::kDiscard);
  mine.cpu_backup = true;
  CHECK(mine.saving() == Saving::kPageable);
  mine.pageable = false;
  CHECK(mine.saving() == Saving::kPinned);
}

TEST_CASE("directory, margin and whether backups are kept are the process's") {
  CHECK(SaverSettings::retains());
  CHECK(SaverSettings::directory() == "/some/where");
  std::thread([] {
    SaverSettings::SetRetains(false);
    SaverSettings::SetDirectory("/else/where");
    SaverSettings::SetMargin(3_GiB);
  }).join();
  CHECK_FALSE(SaverSettings::retains());
  CHECK(SaverSettings::directory() == "/else/where");
  CHECK(SaverSettings::margin() == 3_GiB);
}

}  // namespace
}  // namespace parkade::shim
