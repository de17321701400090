// The identity of this very process, against other ways to read it.
#include "shim/agent/identity.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace parkade::shim {
namespace {

TEST_CASE("pid, start time, namespace and boot are this process's") {
  // A command with blanks and parentheses must not shift the fields.
  REQUIRE(prctl(PR_SET_NAME, "a) b (c 1 2") == 0);
  const auto id = ReadIdentity();
  REQUIRE(id.ok());
  CHECK(id->pid == getpid());

  std::stringstream stat;
  stat << std::ifstream("/proc/self/stat").rdbuf();
  const std::string text = stat.str();
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::vector<std::string> words;
  for (std::string w; fields >> w;) words.push_back(w);
  CHECK(std::to_string(id->start_ticks) == words.at(22 - 3));

  char link[64] = {};
  REQUIRE(readlink("/proc/self/ns/pid", link, sizeof link - 1) > 0);
  CHECK(std::string(link) == "pid:[" + std::to_string(id->pid_namespace) + "]");

  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  CHECK(std::string(id->boot_id) == boot);
}

}  // namespace
}  // namespace parkade::shim
