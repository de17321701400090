// What a Tab offers, and the scripts in the shells themselves, as far as they are there.
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

std::string Offered(const std::vector<std::string>& words, const FakeControl* daemon = nullptr) {
  std::vector<std::string> arguments = {"complete"};
  if (daemon != nullptr) arguments.push_back(daemon->flag());
  arguments.push_back("--");
  arguments.insert(arguments.end(), words.begin(), words.end());
  const Outcome o = RunCli(arguments);
  CHECK(o.exit_code == 0);
  CHECK(o.err == "");
  return o.out;
}

bool Has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

// What a shell offers in `script`; skips where it is not installed.
std::string InShell(const std::string& shell, const std::string& script) {
  const std::string folder = std::filesystem::path(PARKADE_COMMAND).parent_path();
  const Outcome o = Program({"/usr/bin/env", shell, "-c", script},
                            {{"PATH", folder + ":/usr/bin:/bin"}, {"HOME", "/nonexistent"}})
                        .Wait();
  INFO(o.err);
  CHECK(o.exit_code == 0);
  return o.out;
}

bool IsInstalled(const std::string& shell) {
  return std::filesystem::exists("/usr/bin/" + shell) || std::filesystem::exists("/bin/" + shell);
}

}  // namespace

TEST_CASE("verbs, their own verbs and options are offered by what was typed") {
  CHECK(Offered({"pau"}) == "pause\n");
  CHECK(Offered({"--timeout", "3s", "re"}) == "release\nreport\nreserve\nresume\n");
  CHECK(Offered({"checkpoint", "ex"}) == "export\n");
  CHECK(Offered({"pause", "--drain"}) == "--drain-timeout\n");
  const std::string options = Offered({"ps", "--"});
  CHECK(Has(options, "--job"));
  CHECK(Has(options, "--output"));  // of every verb
  CHECK_FALSE(Has(Offered({""}), "complete"));
  CHECK(Has(Offered({}), "pause"));
}

TEST_CASE("values are offered where they are known") {
  CHECK(Offered({"ps", "-o", ""}) == "json\ntable\nwide\nyaml\n");
  CHECK(Offered({"ps", "--job", "p"}) == "");
  CHECK(Offered({"completion", ""}) == "bash\nfish\nzsh\n");
  CHECK(Offered({"run", "--", "pa"}) == "");
  FakeControl daemon;
  *daemon.list_answer.add_processes() = MakeProcess(4711, v1::PROCESS_STATE_RUNNING);
  *daemon.list_answer.add_processes() = MakeProcess(512, v1::PROCESS_STATE_RUNNING);
  CHECK(Offered({"pause", "--policy", "host", "4"}, &daemon) == "4711\n");
  CHECK(Offered({"show", ""}, &daemon) == "4711\n512\n");
}

TEST_CASE("a daemon that is not there is no reason to say anything") {
  CHECK(RunCli({"complete", "--runtime-dir", "/nonexistent", "--", "pause", ""}).out == "");
}

TEST_CASE("the shells complete with the scripts that are printed for them") {
  CHECK(InShell("bash",
                "source <(parkade completion bash); COMP_WORDS=(parkade res); COMP_CWORD=1; "
                "_parkade; echo \"${COMPREPLY[*]}\"; complete -p parkade") ==
        "reserve resume\ncomplete -o default -F _parkade parkade\n");
  if (IsInstalled("fish")) {
    const std::string said =
        InShell("fish", "parkade completion fish | source; complete -C 'parkade res'");
    CHECK(said == "reserve\nresume\n");
  }
  if (IsInstalled("zsh")) {
    // compadd is only in the middle of a completion: it is ours here.
    CHECK(InShell("zsh",
                  "compdef() { echo \"compdef $*\" }; compadd() { echo \"${@[2,-1]}\" }; "
                  "source <(parkade completion zsh); words=(parkade res); CURRENT=2; _parkade") ==
          "compdef _parkade parkade\nreserve resume\n");
  }
}

TEST_CASE("a shell that there is no script for is refused") {
  CHECK(RunCli({"completion", "tcsh"}).exit_code == kExitUsage);
  CHECK(RunCli({"completion"}).exit_code == kExitUsage);
}

}  // namespace parkade::cli
