// Supervisor: what is sent where.
#include "daemon/supervisor.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <map>

#include "tests/unit/daemon/notified.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

std::map<std::string, std::string> environment;

const char* Lookup(const char* name) {
  const auto at = environment.find(name);
  return at == environment.end() ? nullptr : at->second.c_str();
}

}  // namespace

TEST_CASE("a supervisor hears each state as lines, at a path and at an abstract name") {
  const testing::TestDir dir;
  const std::string name =
      GENERATE(false, true) ? "@parkade-test-" + std::to_string(getpid()) : dir / "notify";
  INFO(name);
  testing::Notified notified(name);
  REQUIRE(notified.bound());
  environment = {{"NOTIFY_SOCKET", name}};
  const Supervisor supervisor(Lookup);
  supervisor.Ready("serving");
  CHECK(notified.Take() == "READY=1\nSTATUS=serving");
  supervisor.Reloading();
  const std::string reloading = notified.Take();
  CHECK(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="));
  supervisor.Stopping("ending");
  CHECK(notified.Take() == "STOPPING=1\nSTATUS=ending");
  supervisor.Alive();
  CHECK(notified.Take() == "WATCHDOG=1");
  CHECK(supervisor.watchdog_ms() == 0);
}

TEST_CASE("without a supervisor, or one that has gone, nothing happens") {
  const std::string names[] = {"", "/nonexistent/notify", std::string(200, 'x')};
  for (const std::string& name : names) {
    environment.clear();
    if (!name.empty()) environment["NOTIFY_SOCKET"] = name;
    const Supervisor supervisor(Lookup);
    supervisor.Ready("serving");
    supervisor.Alive();
    CHECK(supervisor.watchdog_ms() == 0);
  }
}

TEST_CASE("the watchdog's time counts for the process that it names") {
  const std::string own = std::to_string(getpid());
  environment = {{"NOTIFY_SOCKET", "/nonexistent"}, {"WATCHDOG_USEC", "3000000"}};
  CHECK(Supervisor(Lookup).watchdog_ms() == 3000);
  environment["WATCHDOG_PID"] = own;
  CHECK(Supervisor(Lookup).watchdog_ms() == 3000);
  environment["WATCHDOG_PID"] = "1";
  CHECK(Supervisor(Lookup).watchdog_ms() == 0);
  environment = {{"NOTIFY_SOCKET", "/nonexistent"}, {"WATCHDOG_USEC", "soon"}};
  CHECK(Supervisor(Lookup).watchdog_ms() == 0);
}
