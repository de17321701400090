// Watchdog: when the supervisor hears that all is well.
#include "daemon/watchdog.h"

#include <catch2/catch.hpp>

#include "tests/unit/daemon/notified.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

std::string socket_name;
const char* period = nullptr;

const char* Lookup(const char* name) {
  if (std::string_view(name) == "NOTIFY_SOCKET") return socket_name.c_str();
  return std::string_view(name) == "WATCHDOG_USEC" ? period : nullptr;
}

}  // namespace

TEST_CASE("the supervisor hears of life only while every sign shows") {
  const testing::TestDir dir;
  socket_name = dir / "notify";
  period = "4000";
  testing::Notified notified(socket_name);
  const Supervisor supervisor(Lookup);
  bool loop = true, api = true;
  Watchdog watchdog(supervisor, {{"loop", [&](Deadline) { return loop; }},
                                 {"API", [&](Deadline by) { return api && by.LeftMs() <= 1; }}});
  CHECK(watchdog.DueMs() == 0);
  watchdog.Look();
  CHECK(notified.Take() == "WATCHDOG=1");
  CHECK(watchdog.DueMs() <= 1);
  for (bool* sign : {&loop, &api}) {
    *sign = false;
    watchdog.Look();
    CHECK(notified.Take().empty());
    *sign = true;
  }
  watchdog.Look();
  CHECK(notified.Take() == "WATCHDOG=1");
}

TEST_CASE("where nobody watches nothing is ever due") {
  socket_name = "/nonexistent";
  period = nullptr;
  const Supervisor supervisor(Lookup);
  CHECK(Watchdog(supervisor, {}).DueMs() == -1);
}
