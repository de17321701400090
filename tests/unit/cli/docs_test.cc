// docs/cli.md tells the truth: its examples run, and it names every option and exit code.
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "common/fd.h"
#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

std::string ReadPage() {
  std::ifstream file(PARKADE_PAGE);
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The lines of all blocks that are marked as shell.
std::vector<std::string> Examples(const std::string& page) {
  std::vector<std::string> examples;
  std::istringstream lines(page);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("```", 0) == 0) {
      inside = line == "```sh";
    } else if (inside) {
      examples.push_back(line);
    }
  }
  return examples;
}

// The long options that a help text names.
std::set<std::string> Options(const std::string& help) {
  std::set<std::string> options;
  const std::string letters = "abcdefghijklmnopqrstuvwxyz-";
  for (size_t at = 0; (at = help.find("--", at)) != std::string::npos;) {
    const size_t end = std::min(help.find_first_not_of(letters, at), help.size());
    options.insert(help.substr(at, end - at));
    at = end;
  }
  return options;
}

// The socket of libraries, which doctor looks for beside the other.
Fd BindShimSocket(const std::string& folder) {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder + "/shim.sock";
  REQUIRE(path.size() < sizeof address.sun_path);
  strcpy(address.sun_path, path.c_str());
  REQUIRE(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

}  // namespace

TEST_CASE("every example of the page runs") {
  FakeControl daemon;
  const Fd shim_socket = BindShimSocket(daemon.directory());
  *daemon.list_answer.add_processes() = MakeProcess(4711, v1::PROCESS_STATE_RUNNING);
  *daemon.get_answer.mutable_process() = MakeProcess(4711, v1::PROCESS_STATE_RUNNING);
  daemon.node_answer.add_gpus()->set_uuid("GPU-aaaa");
  daemon.cancel_answer.set_state(v1::Operation::STATE_FAILED);
  daemon.timeline.emplace_back().mutable_start()->set_format(1);
  const std::string folder = std::filesystem::path(PARKADE_COMMAND).parent_path();
  const Environment environment = {{"PATH", folder + ":/usr/bin:/bin"},
                                   {"PID", "4711"},
                                   {"PARKADE_RUNTIME_DIR", daemon.directory()},
                                   {"PARKADE_LIBRARY", PARKADE_FIXTURE},
                                   {"LD_PRELOAD", ""}};
  const std::vector<std::string> examples = Examples(ReadPage());
  REQUIRE(examples.size() > 15);
  for (const std::string& example : examples) {
    INFO(example);
    const Outcome o = Program({"/bin/sh", "-c", example}, environment).Wait();
    CHECK(o.exit_code == 0);
    CHECK(o.err == "");
  }
}

TEST_CASE("the page names every option of every verb") {
  const std::string page = ReadPage();
  for (const std::string verb :
       {"",          "run",   "ps",      "show",    "pause",     "resume", "handoff",
        "wait-free", "gpus",  "reserve", "release", "budget",    "verify", "prefetch",
        "store",     "watch", "ops",     "cancel",  "group",     "gc",     "mark",
        "report",    "top",   "doctor",  "plan",    "checkpoint"}) {
    const Outcome help = verb.empty() ? RunCli({"--help"}) : RunCli({verb, "--help"});
    const std::set<std::string> options = Options(help.out);
    CHECK(options.count("--help") == 1);
    for (const std::string& option : options) {
      INFO(verb << " " << option);
      CHECK(page.find(option) != std::string::npos);
    }
    if (!verb.empty()) CHECK(page.find("\n## " + verb + "\n") != std::string::npos);
  }
}

TEST_CASE("the page names every exit code") {
  const std::string page = ReadPage();
  for (const int code :
       {kExitOk, kExitFailed, kExitUsage, kExitNotFound, kExitState, kExitResources,
        kExitUnreachable, kExitDataLoss, kExitTimeout, kExitInterrupted}) {
    INFO(code);
    CHECK(page.find("\n| " + std::to_string(code) + " |") != std::string::npos);
  }
}

}  // namespace parkade::cli
