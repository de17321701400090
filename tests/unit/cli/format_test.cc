// Numbers and text as people read them.
#include "cli/format.h"

#include <catch2/catch.hpp>

#include "common/bytes.h"

namespace parkade::cli {

TEST_CASE("sizes have three digits and the unit that fits") {
  CHECK(FormatBytes(0) == "0");
  CHECK(FormatBytes(17) == "17 B");
  CHECK(FormatBytes(512_KiB) == "512 KiB");
  CHECK(FormatBytes(620_MiB) == "620 MiB");
  CHECK(FormatBytes(8_GiB) == "8.00 GiB");
  CHECK(FormatBytes(8_GiB + 500_MiB) == "8.49 GiB");
  CHECK(FormatBytes(143'771_MiB) == "140 GiB");
  CHECK(FormatBytes(UINT64_MAX) == "16.0 EiB");
}

TEST_CASE("a size that rounds up to the next unit is shown in it") {
  CHECK(FormatBytes(1_MiB - 1) == "1.00 MiB");
  CHECK(FormatBytes(1_GiB - 1) == "1.00 GiB");
  CHECK(FormatBytes(10_GiB - 1) == "10.0 GiB");
}

TEST_CASE("times and rates") {
  CHECK(FormatSeconds(0) == "0 s");
  CHECK(FormatSeconds(0.0004) == "0.40 ms");
  CHECK(FormatSeconds(0.327) == "327 ms");
  CHECK(FormatSeconds(8.1) == "8.10 s");
  CHECK(FormatSeconds(132) == "132 s");
  CHECK(FormatRate(17'200'000'000, 0.327) == "52.6 GB/s");
  CHECK(FormatRate(4'300'000, 1) == "4.30 MB/s");
  CHECK(FormatRate(0, 1) == "-");
  CHECK(FormatRate(5, 0) == "-");
}

TEST_CASE("a moment is shown to the millisecond with its zone") {
  google::protobuf::Timestamp time;
  time.set_seconds(1'800'000'000);
  time.set_nanos(123'456'789);
  CHECK(FormatTime(time, absl::UTCTimeZone()) == "2027-01-15T08:00:00.123+00:00");
}

TEST_CASE("states and kinds lose their prefix, unknown ones show their number") {
  CHECK(StateName(v1::PROCESS_STATE_PARTLY_MOVED) == "partly_moved");
  CHECK(StateName(v1::ProcessState(99)) == "unknown 99");
  CHECK(KindName(v1::Event::KIND_GONE) == "gone");
}

TEST_CASE("control characters of other processes do not reach the terminal") {
  CHECK(Printable("a\033[2Jb") == "a?[2Jb");
  CHECK(Printable("two\nlines\tand \x7f") == "two lines and ?");
  CHECK(Printable("c1 \xc2\x9b stays out") == "c1 ?? stays out");
  CHECK(Printable("größe") == "größe");
}

TEST_CASE("progress leaves out what is unknown") {
  v1::Progress progress;
  progress.set_done_bytes(1_GiB);
  progress.set_total_bytes(8_GiB);
  CHECK(FormatProgress(progress) == "1.00 GiB of 8.00 GiB");
  progress.set_bytes_per_second(21e9);
  progress.mutable_time_left()->set_nanos(250'000'000);
  CHECK(FormatProgress(progress) == "1.00 GiB of 8.00 GiB, 21.0 GB/s, 250 ms left");
}

}  // namespace parkade::cli
