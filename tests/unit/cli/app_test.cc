// The command line as a whole: help, globals, unknown words, a daemon that is not there.
#include "cli/app.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>

#include "common/fd.h"
#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A socket at `path` that listens without ever answering, or that nobody listens on.
Fd MakeSocket(const std::string& path, bool listens) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof address.sun_path);
  strcpy(address.sun_path, path.c_str());
  REQUIRE(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  if (listens) REQUIRE(listen(fd.get(), 8) == 0);
  return fd;
}

// What the real program writes to a terminal.
std::string OnTerminal(const std::string& arguments, const Environment& environment) {
  const Fd master(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(grantpt(master.get()) == 0);
  REQUIRE(unlockpt(master.get()) == 0);
  const std::string name = ptsname(master.get());
  // Held open here, so that what was written stays readable when the program has ended.
  const Fd slave(open(name.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  Program program({"/bin/sh", "-c", "exec " PARKADE_COMMAND " " + arguments + " >" + name},
                  environment);
  REQUIRE(program.Wait().exit_code == 0);
  char buffer[4096];
  const ssize_t n = read(master.get(), buffer, sizeof buffer);
  REQUIRE(n > 0);
  return std::string(buffer, size_t(n));
}

}  // namespace

TEST_CASE("help and version go to stdout with exit code 0") {
  CHECK(RunCli({"--version"}).out == "parkade " PARKADE_VERSION "\n");
  const Outcome help = RunCli({"--help"});
  CHECK(help.exit_code == 0);
  for (const char* verb : {"run", "ps", "show", "pause", "resume", "watch"}) {
    INFO(verb);
    CHECK(Has(help.out, std::string("\n  ") + verb + " "));
    const Outcome verb_help = RunCli({verb, "--help"});
    CHECK(verb_help.exit_code == 0);
    CHECK(Has(verb_help.out, "Usage: parkade " + std::string(verb)));
  }
}

TEST_CASE("words that are no verb are refused by name") {
  CHECK(RunCli({}).err == "parkade: no verb is given; `parkade --help` shows what there is\n");
  const Outcome o = RunCli({"park"});
  CHECK(o.exit_code == kExitUsage);
  CHECK(Has(o.err, "no verb \"park\""));
  CHECK(RunCli({"ps", "--", "x"}).exit_code == kExitUsage);
}

TEST_CASE("global options are taken before and after the verb") {
  FakeControl daemon;
  CHECK(RunCli({daemon.flag(), "-o", "json", "ps"}).out ==
        RunCli({"ps", "-o", "json", daemon.flag()}).out);
  CHECK(RunCli({"-o", "xml", "ps"}).exit_code == kExitUsage);
  CHECK(RunCli({"--timeout", "0s", "ps"}).exit_code == kExitUsage);
}

TEST_CASE("the runtime directory comes from the environment, a flag wins") {
  FakeControl daemon;
  const Environment environment = {{"PARKADE_RUNTIME_DIR", daemon.directory()}};
  CHECK(SpawnCli({"ps"}, environment).exit_code == 0);
  CHECK(SpawnCli({"ps", "--runtime-dir=/nowhere"}, environment).exit_code == kExitUnreachable);
}

TEST_CASE("a daemon that is not there is said in one sentence") {
  TestDirectory dir;
  for (const char* verb : {"ps", "show", "pause", "resume", "watch"}) {
    INFO(verb);
    const Outcome o = RunCli({verb, "1", "--runtime-dir", dir.path()});
    CHECK(o.exit_code == kExitUnreachable);
    CHECK(o.out == "");
    CHECK(o.err == std::string("parkade: ") + verb + " 1: no daemon at " + (dir / "control.sock") +
                       ": No such file or directory (UNREACHABLE); start parkaded, or name its "
                       "directory with --runtime-dir\n");
  }
}

TEST_CASE("a socket left by a dead daemon is told apart") {
  TestDirectory dir;
  const Fd left = MakeSocket(dir / "control.sock", false);
  const Outcome o = RunCli({"ps", "--runtime-dir", dir.path()});
  CHECK(o.exit_code == kExitUnreachable);
  CHECK(Has(o.err, "nobody listens"));
}

TEST_CASE("a daemon that hangs ends in a timeout") {
  TestDirectory dir;
  const Fd hung = MakeSocket(dir / "control.sock", true);
  const Outcome o = RunCli({"ps", "--timeout", "200ms", "--runtime-dir", dir.path()});
  CHECK(o.exit_code == kExitTimeout);
  CHECK(Has(o.err, "NO_ANSWER"));
}

TEST_CASE("a path too long for a socket is said") {
  const Outcome o = RunCli({"ps", "--runtime-dir", "/" + std::string(120, 'x')});
  CHECK(o.exit_code == kExitUnreachable);
  CHECK(Has(o.err, "too long"));
}

TEST_CASE("a terminal gets colour, NO_COLOR and a pipe do not") {
  FakeControl daemon;
  *daemon.list_answer.add_processes() = MakeProcess(1, v1::PROCESS_STATE_RUNNING);
  CHECK(Has(OnTerminal("ps " + daemon.flag(), {{"NO_COLOR", ""}}), "\033[32mrunning"));
  const std::string plain = OnTerminal("ps " + daemon.flag(), {{"NO_COLOR", "1"}});
  CHECK(Has(plain, "running"));
  CHECK_FALSE(Has(plain, "\033"));
  CHECK_FALSE(Has(SpawnCli({"ps", daemon.flag()}, {{"NO_COLOR", ""}}).out, "\033"));
}

TEST_CASE("output that cannot be written is a failure") {
  FakeControl daemon;
  Program full({"/bin/sh", "-c", "exec " PARKADE_COMMAND " ps " + daemon.flag() + " >/dev/full"});
  const Outcome o = full.Wait();
  CHECK(o.exit_code == kExitFailed);
  CHECK(Has(o.err, "could not be written"));
}

}  // namespace parkade::cli
