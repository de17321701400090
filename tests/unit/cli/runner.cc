// Captures streams of the command line, in process and out of it.
#include "tests/unit/cli/runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace parkade::cli {
namespace {

void Append(int fd, std::string* text, bool* open) {
  char buffer[4096];
  const ssize_t n = read(fd, buffer, sizeof buffer);
  if (n <= 0) *open = false;
  if (n > 0) text->append(buffer, size_t(n));
}

}  // namespace

Outcome RunCli(const std::vector<std::string>& arguments, size_t columns) {
  std::ostringstream out, err;
  Terminal terminal{out, err, columns, 0, columns != 0};
  Outcome outcome;
  outcome.exit_code = RunCommandLine(arguments, terminal);
  outcome.out = out.str();
  outcome.err = err.str();
  return outcome;
}

Program::Program(const std::vector<std::string>& arguments, const Environment& environment) {
  int out[2], err[2];
  REQUIRE(pipe2(out, O_CLOEXEC) == 0);
  REQUIRE(pipe2(err, O_CLOEXEC) == 0);
  // Everything is made before fork: other threads of this process may hold the heap's locks.
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  Environment merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    merged[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  for (const auto& [name, value] : environment) merged[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : merged) {
    if (!value.empty()) lines.push_back(name + "=" + value);
  }
  std::vector<char*> envp;
  for (const std::string& line : lines) envp.push_back(const_cast<char*>(line.c_str()));
  envp.push_back(nullptr);
  pid_ = fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    execvpe(argv[0], argv.data(), envp.data());
    _exit(99);
  }
  close(out[1]);
  close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

Program::~Program() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(out_);
  close(err_);
}

bool Program::ReadSome() {
  bool out_open = true, err_open = true;
  pollfd waits[] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  constexpr int kLongestMs = 20'000;
  if (poll(waits, 2, kLongestMs) <= 0) {
    kill(pid_, SIGKILL);
    return false;
  }
  if (waits[0].revents != 0) Append(out_, &outcome_.out, &out_open);
  if (waits[1].revents != 0) Append(err_, &outcome_.err, &err_open);
  if (!out_open) out_ = (close(out_), -1);
  if (!err_open) err_ = (close(err_), -1);
  return out_ >= 0 || err_ >= 0;
}

bool Program::WaitForOutput(const std::string& text) {
  while (outcome_.out.find(text) == std::string::npos) {
    if (!ReadSome()) return false;
  }
  return true;
}

Outcome Program::Wait() {
  while (ReadSome()) {
  }
  int status = 0;
  REQUIRE(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  outcome_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return outcome_;
}

Outcome SpawnCli(std::vector<std::string> arguments, const Environment& environment) {
  arguments.insert(arguments.begin(), PARKADE_COMMAND);
  return Program(arguments, environment).Wait();
}

TestDirectory::TestDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "parkade-cli-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TestDirectory::~TestDirectory() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace parkade::cli
