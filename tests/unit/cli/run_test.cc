// `parkade run` with real programs: what they find in their environment, what their end becomes.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/unit/cli/runner.h"

namespace parkade::cli {
namespace {

namespace fs = std::filesystem;

// Under asan the program itself would refuse to start behind a preloaded library.
const Environment kLibrary = {{"PARKADE_LIBRARY", PARKADE_FIXTURE},
                              {"LD_PRELOAD", ""},
                              {"ASAN_OPTIONS", "verify_asan_link_order=0"}};

// `parkade run` with these options on a shell that runs `script`.
Outcome RunScript(std::vector<std::string> options, const std::string& script,
                  Environment environment = kLibrary) {
  options.insert(options.begin(), "run");
  for (const char* part : {"--", "/bin/sh", "-c"}) options.push_back(part);
  options.push_back(script);
  return SpawnCli(options, environment);
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("run becomes the command, with the library mapped into it") {
  const Outcome o = RunScript({}, "echo $LD_PRELOAD; cat /proc/$$/maps");
  CHECK(o.exit_code == 0);
  CHECK(o.err == "");
  CHECK(o.out.rfind(std::string(PARKADE_FIXTURE) + "\n", 0) == 0);
  CHECK(Has(o.out.substr(o.out.find('\n')), PARKADE_FIXTURE));
}

TEST_CASE("run says to a rank of several how to keep NCCL from registering memory") {
  for (const char* variable : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    Environment environment = kLibrary;
    environment[variable] = "16";
    const std::string err = RunScript({}, "true", environment).err;
    CHECK(Has(err, "one of 16 ranks (" + std::string(variable) + ")"));
    CHECK(Has(err, "NCCL_GRAPH_REGISTER=0 and NCCL_LOCAL_REGISTER=0"));
    environment["NCCL_GRAPH_REGISTER"] = "0";
    CHECK(RunScript({}, "true", environment).err == err);
    environment["NCCL_LOCAL_REGISTER"] = "0";
    CHECK(RunScript({}, "true", environment).err == "");
  }
  for (const char* alone : {"1", "0", "many", ""}) {
    Environment environment = kLibrary;
    environment["WORLD_SIZE"] = alone;
    CHECK(RunScript({}, "true", environment).err == "");
  }
}

TEST_CASE("run keeps the process ID, so that launchers signal the command") {
  Program program({PARKADE_COMMAND, "run", "--", "/bin/sh", "-c", "echo $$"}, kLibrary);
  const pid_t pid = program.pid();
  CHECK(program.Wait().out == std::to_string(pid) + "\n");
}

TEST_CASE("what is preloaded already stays in front") {
  Environment environment = kLibrary;
  environment["LD_PRELOAD"] = "libm.so.6";
  CHECK(RunScript({}, "echo $LD_PRELOAD", environment).out ==
        "libm.so.6:" + std::string(PARKADE_FIXTURE) + "\n");
}

TEST_CASE("run inside run adds the library once") {
  const Outcome o = SpawnCli({"run", "--", PARKADE_COMMAND, "run", "--job", "inner", "--",
                              "/bin/sh", "-c", "echo $LD_PRELOAD $PARKADE_JOB"},
                             kLibrary);
  CHECK(o.out == std::string(PARKADE_FIXTURE) + " inner\n");
}

TEST_CASE("labels and settings are handed to the command") {
  const Outcome o =
      RunScript({"--job", "rl", "--role", "actor", "--cell", "c0", "--rank", "3", "--policy",
                 "auto", "--scratch-dir", "/scratch/x", "--runtime-dir", "/run/other"},
                "echo $PARKADE_JOB $PARKADE_ROLE $PARKADE_CELL $PARKADE_RANK $PARKADE_POLICY "
                "$PARKADE_SCRATCH_DIR $PARKADE_RUNTIME_DIR");
  CHECK(o.err == "");
  CHECK(o.out == "rl actor c0 3 auto /scratch/x /run/other\n");
}

TEST_CASE("--wake lets the command take turns") {
  CHECK(RunScript({"--wake"}, "echo $PARKADE_WAKE").out == "1\n");
}

TEST_CASE("what is not given is not set") {
  const Outcome o = RunScript({}, "env | grep -c ^PARKADE_ ; echo ${PARKADE-unset}");
  CHECK(o.out == "1\nunset\n");  // PARKADE_LIBRARY, from this test
}

TEST_CASE("--no-park leaves Parkade out of the command and its children") {
  const Outcome o = RunScript({"--no-park"}, "echo $PARKADE/$LD_PRELOAD");
  CHECK(o.out == "off/\n");
}

TEST_CASE("PARKADE=off in the environment wins, with a word about it") {
  Environment environment = kLibrary;
  environment["PARKADE"] = "off";
  const Outcome o = RunScript({}, "echo $PARKADE/$LD_PRELOAD", environment);
  CHECK(o.out == "off/\n");
  CHECK(Has(o.err, "PARKADE=off"));
}

TEST_CASE("the exit code is the command's") {
  CHECK(RunScript({}, "exit 7").exit_code == 7);
  CHECK(RunScript({}, "kill -TERM $$").exit_code == -15);
}

TEST_CASE("a command that cannot be started gives the shell's codes") {
  TestDirectory dir;
  const Outcome missing = SpawnCli({"run", "--", "no-such-command"}, kLibrary);
  CHECK(missing.exit_code == 127);
  CHECK(missing.err == "parkade: run: no-such-command: No such file or directory\n");
  const Outcome folder = SpawnCli({"run", "--", dir.path()}, kLibrary);
  CHECK(folder.exit_code == 126);
}

TEST_CASE("the library is found beside the program") {
  TestDirectory dir;
  fs::create_directories(dir / "bin");
  fs::create_directories(dir / "lib");
  fs::copy_file(PARKADE_COMMAND, dir / "bin/parkade");
  const Environment clean = {{"PARKADE_LIBRARY", ""}, {"LD_PRELOAD", ""}};
  const std::vector<std::string> arguments = {dir / "bin/parkade", "run", "--",
                                              "/bin/sh",           "-c",  "echo $LD_PRELOAD"};
  const Outcome without = Program(arguments, clean).Wait();
  CHECK(without.exit_code == kExitNotFound);
  CHECK(Has(without.err, "no libparkade.so"));
  fs::copy_file(PARKADE_FIXTURE, dir / "lib/libparkade.so");
  CHECK(Program(arguments, clean).Wait().out == (dir / "lib/libparkade.so") + "\n");
  // Through a link to the program as well, as in /usr/local/bin.
  fs::create_symlink(dir / "bin/parkade", dir / "parkade");
  std::vector<std::string> linked = arguments;
  linked[0] = dir / "parkade";
  CHECK(Program(linked, clean).Wait().out == (dir / "lib/libparkade.so") + "\n");
}

TEST_CASE("a library that cannot be preloaded is refused before the command runs") {
  const Outcome o = RunScript({}, "echo ran", {{"PARKADE_LIBRARY", "/bin/sh"}});
  CHECK(o.exit_code == kExitState);
  CHECK(o.out == "");
  CHECK(Has(o.err, "BAD_LIBRARY"));
}

TEST_CASE("run refuses what would have no effect") {
  const auto refused = [](const std::vector<std::string>& options, const std::string& why) {
    INFO(why);
    const Outcome o = RunScript(options, "echo ran");
    CHECK(o.exit_code == kExitUsage);
    CHECK(o.out == "");
    CHECK(Has(o.err, why));
  };
  refused({"--no-park", "--job", "x"}, "no effect");
  refused({"--no-park", "--wake"}, "no effect");
  refused({"-o", "json"}, "-o has no effect");
  refused({"--timeout", "5s"}, "--timeout has no effect");
  refused({"--rank", "-1"}, "no rank");
  refused({"--scratch-dir", "relative"}, "absolute");
  refused({"--policy", "discard"}, "--policy");
  refused({"--job", std::string(64, 'x')}, "too long");
  CHECK(RunCli({"run"}).exit_code == kExitUsage);
  CHECK(RunCli({"run", "--"}).exit_code == kExitUsage);
  CHECK(Has(RunCli({"run", "/bin/true"}).err, "the command stands after \"--\""));
}

}  // namespace parkade::cli
