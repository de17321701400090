// Runs the command line under test: in this process, or as the real program.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "cli/app.h"

namespace parkade::cli {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// In this process, without a terminal; `columns` makes stdout a terminal with colours.
Outcome RunCli(const std::vector<std::string>& arguments, size_t columns = 0);

using Environment = std::map<std::string, std::string>;

// Starts a program with this process's environment changed by `environment` (an empty value
// unsets). The exit code of a program that a signal ended is minus the signal. Gives up after 20 s.
class Program {
 public:
  Program(const std::vector<std::string>& arguments, const Environment& environment = {});
  ~Program();
  pid_t pid() const { return pid_; }
  // Reads stdout until it holds `text`; false when it ends or the time is up before that.
  bool WaitForOutput(const std::string& text);
  Outcome Wait();

 private:
  bool ReadSome();

  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  Outcome outcome_;
};

// The real `parkade` with these arguments.
Outcome SpawnCli(std::vector<std::string> arguments, const Environment& environment = {});

// A directory that is removed with its contents.
class TestDirectory {
 public:
  TestDirectory();
  ~TestDirectory();
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace parkade::cli
