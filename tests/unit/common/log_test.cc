// Log lines as they reach stderr, as text and as JSON.
#include "common/log.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "common/fd.h"

namespace parkade {
namespace {

// What `write` sends to stderr.
template <typename Writes>
std::string Said(Writes write) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const Fd kept(dup(STDERR_FILENO));
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  write();
  dup2(kept.get(), STDERR_FILENO);
  const Fd from(ends[0]);
  char text[8192];
  const ssize_t n = read(from.get(), text, sizeof text);
  SetLog("parkade", LogLevel::kWarning);
  return {text, size_t(n)};
}

}  // namespace

TEST_CASE("a line of text has the message, without what is for programs") {
  const std::string line = Said([] {
    SetLog("tester", LogLevel::kInfo);
    LogWith(LogLevel::kInfo, "paused", "\"bytes\": 7");
    Log(LogLevel::kDebug, "not told");
  });
  CHECK(line.ends_with("] info: paused\n"));
  CHECK(line.find(" tester[") != std::string::npos);
}

TEST_CASE("a line of JSON is one object, whatever the message holds") {
  const std::string line = Said([] {
    SetLog("tester", LogLevel::kInfo, LogFormat::kJson);
    LogWith(LogLevel::kWarning, "a \"b\" \\ c\n", "\"bytes\": 7");
  });
  CHECK(line.starts_with("{\"time\": \"20"));
  CHECK(line.ends_with(
      "\"level\": \"warning\", \"message\": \"a \\\"b\\\" \\\\ c\\u000a\", \"bytes\": 7}\n"));
}

TEST_CASE("a long message is cut, and its line is still whole") {
  const std::string line = Said([] {
    SetLog("tester", LogLevel::kInfo, LogFormat::kJson);
    Log(LogLevel::kInfo, "%s", std::string(3000, '"').c_str());
  });
  CHECK(line.ends_with("\\\"\"}\n"));
}

TEST_CASE("formats of the log are known by name") {
  LogFormat format{};
  CHECK(ParseLogFormat("json", &format));
  CHECK(format == LogFormat::kJson);
  CHECK_FALSE(ParseLogFormat("xml", &format));
}

}  // namespace parkade
