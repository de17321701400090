// Reads stat, cmdline, environ and maps of every process.
#include "cli/process_tree.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/kernel_files.h"

namespace parkade::cli {
namespace {

namespace fs = std::filesystem;

// "PID (COMMAND) STATE PARENT ...": the command may hold blanks and brackets.
pid_t ParentOf(const std::string& stat) {
  const size_t end = stat.rfind(')');
  if (end == std::string::npos) return -1;
  const std::vector<std::string> words =
      absl::StrSplit(stat.substr(end + 1), ' ', absl::SkipEmpty());
  int parent = -1;
  if (words.size() < 2 || !absl::SimpleAtoi(words[1], &parent)) return -1;
  return parent;
}

SeenProcess ReadOne(const std::string& folder, pid_t pid) {
  SeenProcess seen;
  seen.pid = pid;
  seen.parent = ParentOf(ReadSmallFile(folder + "/stat"));
  seen.command = ReadSmallFile(folder + "/cmdline");
  while (!seen.command.empty() && seen.command.back() == '\0') seen.command.pop_back();
  std::replace(seen.command.begin(), seen.command.end(), '\0', ' ');
  const std::string maps = ReadSmallFile(folder + "/maps");
  seen.visible = !maps.empty();
  if (!seen.visible) return seen;
  seen.has_library = maps.find("/libparkade.so") != std::string::npos;
  seen.has_driver = maps.find("/libcuda.so") != std::string::npos;
  seen.environment = ParseEnvironment(ReadSmallFile(folder + "/environ"));
  return seen;
}

}  // namespace

Variables ParseEnvironment(const std::string& text) {
  Variables variables;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\0'))) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return variables;
}

ProcessTree ReadProcessTree(const std::string& proc) {
  ProcessTree tree;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(proc, error)) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid) || pid <= 0) continue;
    SeenProcess seen = ReadOne(entry.path().string(), pid);
    // Kernel threads have no command line; one that has ended has no parent any more.
    if (seen.parent < 0 || seen.command.empty()) continue;
    tree.emplace(pid, std::move(seen));
  }
  return tree;
}

bool IsBeneath(const ProcessTree& tree, pid_t pid, pid_t root) {
  // Parents that changed while they were read could make a circle.
  for (size_t steps = 0; steps <= tree.size(); ++steps) {
    if (pid == root) return true;
    const auto at = tree.find(pid);
    if (at == tree.end()) return false;
    pid = at->second.parent;
  }
  return false;
}

}  // namespace parkade::cli
