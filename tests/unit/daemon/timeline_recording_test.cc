// The recording's file: whole messages up to its limit, and errors with its path.
#include "daemon/timeline_recording.h"

#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "daemon/status.h"
#include "tests/unit/daemon/test_dir.h"

namespace parkade::daemon {
namespace {

std::vector<v1::TimelineEntry> ReadBack(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  google::protobuf::io::FileInputStream stream(file.get());
  std::vector<v1::TimelineEntry> entries;
  bool clean = false;
  for (v1::TimelineEntry entry;
       google::protobuf::util::ParseDelimitedFromZeroCopyStream(&entry, &stream, &clean);
       entry.Clear()) {
    entries.push_back(entry);
  }
  CHECK(clean);
  return entries;
}

v1::TimelineEntry Mark(const std::string& name) {
  v1::TimelineEntry entry;
  entry.mutable_mark()->set_name(name);
  return entry;
}

}  // namespace

TEST_CASE("a recording begins with its start and ends whole at its limit") {
  const testing::TestDir dir;
  auto recording = TimelineRecording::Begin(dir / "recordings", 400);
  REQUIRE(recording.ok());
  for (int i = 0; i < 100; ++i) (*recording)->Add(Mark("number " + std::to_string(i)));
  const auto entries = ReadBack((*recording)->path());
  REQUIRE(entries.size() > 5);
  CHECK(entries[0].start().format() == 1);
  for (size_t i = 1; i < entries.size(); ++i) {
    CHECK(entries[i].mark().name() == "number " + std::to_string(i - 1));
  }
  struct stat found {};
  REQUIRE(stat((*recording)->path().c_str(), &found) == 0);
  CHECK(found.st_size <= 400);
  CHECK((found.st_mode & 0777) == 0600);
}

TEST_CASE("a folder that cannot be is an error with its name") {
  const auto recording = TimelineRecording::Begin("/proc/nowhere", 1_MiB);
  REQUIRE_FALSE(recording.ok());
  CHECK(MessageOf(recording.status()).find("/proc/nowhere") != std::string::npos);
}

}  // namespace parkade::daemon
