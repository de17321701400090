// Which daemon is asked, and who could have put it there.
#include "cli/endpoint.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "cli/error.h"
#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

Globals Local(const std::string& directory) {
  Globals globals;
  globals.runtime_dir = directory;
  return globals;
}

std::string Refusal(const std::string& directory) {
  const auto endpoint = EndpointOf(Local(directory));
  if (endpoint.ok()) return "";
  CHECK(ReasonOf(endpoint.status()) == "UNSAFE_DIRECTORY");
  return std::string(endpoint.status().message());
}

bool Has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a daemon's own socket is asked, a directory where there is none is no danger") {
  FakeControl daemon;
  const auto endpoint = EndpointOf(Local(daemon.directory()));
  REQUIRE(endpoint.ok());
  CHECK(endpoint->name == daemon.directory() + "/control.sock");
  CHECK_FALSE(endpoint->tls);
  CHECK(EndpointOf(Local("/no/such/directory")).ok());
}

TEST_CASE("a socket that somebody else may have put there is not asked") {
  const TestDirectory dir;
  namespace fs = std::filesystem;
  fs::create_directories(dir / "open/run");
  REQUIRE(chmod((dir / "open").c_str(), 0777) == 0);
  CHECK(Has(Refusal(dir / "open/run"), dir / "open can be changed"));
  REQUIRE(chmod((dir / "open").c_str(), 01777) == 0);
  CHECK(Refusal(dir / "open/run").empty());
  std::ofstream(dir / "open/run/control.sock") << "no socket";
  CHECK(Has(Refusal(dir / "open/run"), "is not a socket"));
  const Outcome o = RunCli({"ps", "--runtime-dir", dir / "open/run"});
  CHECK(o.exit_code == kExitState);
  CHECK(Has(o.err, "UNSAFE_DIRECTORY"));
  CHECK(RunCli({"watch", "--runtime-dir", dir / "open/run"}).exit_code == kExitState);

  if (geteuid() != 0) return;
  // Root may ask any user's daemon, but follows nobody's links.
  REQUIRE(chown((dir / "open/run").c_str(), 65534, 65534) == 0);
  fs::remove(dir / "open/run/control.sock");
  CHECK(Refusal(dir / "open/run").empty());
  fs::create_directory_symlink(dir / "open/run", dir / "link");
  CHECK(Refusal(dir / "link").empty());
  REQUIRE(lchown((dir / "link").c_str(), 65534, 65534) == 0);
  CHECK(Has(Refusal(dir / "link"), "belongs to user 65534"));
}

TEST_CASE("another user's socket is refused to a user, by whom it is") {
  if (geteuid() != 0) return;
  const TestDirectory dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0755));
  std::filesystem::create_directory(dir / "run");
  REQUIRE(chown((dir / "run").c_str(), 65533, 65533) == 0);
  const Outcome o = Program({"/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534",
                             "--clear-groups", PARKADE_COMMAND, "ps", "--runtime-dir", dir / "run"})
                        .Wait();
  CHECK(o.exit_code == kExitState);
  CHECK(Has(o.err, "belongs to user 65533"));
}

TEST_CASE("an address needs all of its files, and files that are there") {
  const TestDirectory dir;
  for (const char* file : {"cert", "key", "ca"}) std::ofstream(dir / file) << file;
  const std::vector<std::string> all{"ps",    "--address", "localhost:1", "--cert",  dir / "cert",
                                     "--key", dir / "key", "--ca",        dir / "ca"};
  const Outcome missing = RunCli({"ps", "--address", "localhost:1", "--cert", dir / "cert"});
  CHECK(missing.exit_code == kExitUsage);
  CHECK(Has(missing.err, "--cert, --key and --ca"));
  std::filesystem::remove(dir / "key");
  const Outcome unreadable = RunCli(all);
  CHECK(unreadable.exit_code == kExitUsage);
  CHECK(Has(unreadable.err, "cannot read " + dir / "key"));
}

}  // namespace parkade::cli
