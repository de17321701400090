// What users type is read, or refused with a sentence.
#include "cli/read.h"

#include <catch2/catch.hpp>

#include "common/bytes.h"

namespace parkade::cli {
namespace {

// What the validator says about `text`; empty: it is taken.
std::string Says(const CLI::Validator& validator, std::string text) { return validator(text); }

}  // namespace

TEST_CASE("durations need a unit and a positive, finite value") {
  CHECK(*ReadDuration("30s") == absl::Seconds(30));
  CHECK(*ReadDuration("500ms") == absl::Milliseconds(500));
  CHECK(*ReadDuration("1h30m") == absl::Minutes(90));
  CHECK(*ReadDuration("1.5s") == absl::Milliseconds(1500));
  for (const char* bad : {"", "30", "s", "0s", "0", "-5s", "inf", "5 s", "5 parsecs", "1e3s"}) {
    INFO(bad);
    CHECK_FALSE(ReadDuration(bad).ok());
    CHECK(Says(IsDuration(), bad) == ReadDuration(bad).status().message());
  }
}

TEST_CASE("sizes outside of what is possible are refused with the limits") {
  const auto chunk = IsSize(16_MiB, 4_GiB);
  CHECK(Says(chunk, "16M").empty());
  CHECK(Says(chunk, "4GiB").empty());
  CHECK(Says(chunk, "15MiB") == "size \"15MiB\": must be from 16 MiB to 4.00 GiB");
  CHECK(Says(chunk, "5G") == "size \"5G\": must be from 16 MiB to 4.00 GiB");
  for (const char* bad : {"", "0", "-1M", "1.5G", "64 M", "64Q", "99999999999999999999"}) {
    INFO(bad);
    CHECK_FALSE(Says(chunk, bad).empty());
  }
}

TEST_CASE("process IDs and ranks are whole numbers in range") {
  CHECK(Says(IsPid(), "4711").empty());
  CHECK(Says(IsRank(), "0").empty());
  for (const char* bad : {"0", "-1", "", "x", "12x", "2147483648", "1.0", "+5"}) {
    INFO(bad);
    CHECK_FALSE(Says(IsPid(), bad).empty());
  }
  CHECK_FALSE(Says(IsRank(), "-1").empty());
}

TEST_CASE("labels fit the field that carries them") {
  CHECK(Says(IsLabel(5), "actor").empty());
  CHECK_FALSE(Says(IsLabel(4), "actor").empty());
  CHECK_FALSE(Says(IsLabel(5), "").empty());
  CHECK_FALSE(Says(IsLabel(5), "a\nb").empty());
}

TEST_CASE("directories are absolute and fit the field that carries them") {
  CHECK(Says(IsDirectoryName(), "/scratch").empty());
  CHECK(Says(IsDirectoryName(), "/" + std::string(254, 'x')).empty());
  CHECK_FALSE(Says(IsDirectoryName(), "/" + std::string(255, 'x')).empty());
  CHECK_FALSE(Says(IsDirectoryName(), "scratch").empty());
  CHECK_FALSE(Says(IsDirectoryName(), "").empty());
}

TEST_CASE("policies are read by name") {
  CHECK(ReadPolicy("host") == v1::POLICY_HOST);
  CHECK(ReadPolicy("discard") == v1::POLICY_DISCARD);
  CHECK(ReadPolicy("HOST") == v1::POLICY_UNSPECIFIED);
}

}  // namespace parkade::cli
