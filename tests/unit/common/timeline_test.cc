// Timeline: what its line says.
#include "common/timeline.h"

#include <stdio.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "common/log.h"

namespace parkade {
namespace {

// What `print` writes to the standard error.
template <typename Print>
std::string Said(Print print) {
  FILE* file = tmpfile();
  const int before = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  print();
  dup2(before, STDERR_FILENO);
  close(before);
  rewind(file);
  char text[1024] = {};
  [[maybe_unused]] const size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  return text;
}

// The number behind `name` in `line`.
double After(const std::string& line, const std::string& name) {
  const size_t at = line.find(name + " ");
  REQUIRE(at != std::string::npos);
  return strtod(line.c_str() + at + name.size() + 1, nullptr);
}

TEST_CASE("a timeline's line has each step once, with all of its time") {
  SetLog("timeline_test", LogLevel::kDebug);
  Timeline timeline(MonotonicNs() - 7'000'000);
  timeline.Ended("plan");
  for (int i = 0; i < 3; ++i) timeline.Ended("copy");
  const std::string line = Said([&] { timeline.Log("pause"); });
  CHECK(line.find("debug: pause: ") != std::string::npos);
  CHECK(line.find("copy") == line.rfind("copy"));
  CHECK(After(line, "plan") >= 7.0);
  const double sum = After(line, "plan") + After(line, "copy");
  CHECK(sum <= After(line, "pause:") + 0.02);
  CHECK(sum >= After(line, "pause:") - 0.02);
}

TEST_CASE("a timeline says nothing above level debug") {
  SetLog("timeline_test", LogLevel::kInfo);
  Timeline timeline;
  timeline.Ended("plan");
  CHECK(Said([&] { timeline.Log("pause"); }).empty());
}

TEST_CASE("steps beyond the most that a timeline has room for count as the last one") {
  SetLog("timeline_test", LogLevel::kDebug);
  Timeline timeline(MonotonicNs() - 1'000'000);
  const char* const names[] = {"a0", "a1", "a2", "a3", "a4", "a5", "a6",
                               "a7", "a8", "a9", "b0", "b1", "b2", "b3"};
  for (const char* name : names) timeline.Ended(name);
  const std::string line = Said([&] { timeline.Log("pause"); });
  CHECK(After(line, "a0") >= 1.0);
  CHECK(line.find("b1") != std::string::npos);
  CHECK(line.find("b2") == std::string::npos);
}

}  // namespace
}  // namespace parkade
