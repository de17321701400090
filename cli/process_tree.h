// ProcessTree: the processes of /proc with their parents, environment and what they have loaded.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

namespace parkade::cli {

using Variables = std::map<std::string, std::string>;

struct SeenProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string command;  // its words with blanks between; of another's choice, so print it Printable
  bool visible = false;      // environment and mappings could be read; else all below is empty
  bool has_library = false;  // libparkade.so is mapped
  bool has_driver = false;   // libcuda.so.1 is mapped
  Variables environment;     // as it was at the process's start
};

// By pid. Kernel threads and what ends meanwhile are left out.
using ProcessTree = std::map<pid_t, SeenProcess>;

// Reads `proc`; some 0.1 ms for each process.
ProcessTree ReadProcessTree(const std::string& proc);

// Whether `pid` is `root` or descends from it.
bool IsBeneath(const ProcessTree& tree, pid_t pid, pid_t root);

// "NAME=value" texts, each ended by a NUL, as in /proc/<pid>/environ; of two of one name the first.
Variables ParseEnvironment(const std::string& text);

}  // namespace parkade::cli
