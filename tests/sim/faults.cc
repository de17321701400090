// Reads SIM_FAULTS, lines of the form
//   NAME N fail CODE | NAME N wait MILLISECONDSms | NAME N kill        [pid=PID]
// which act once, on the Nth call of NAME in this process after it saw the line. A line that stands
// unchanged when the file is edited keeps its count.
#include "tests/sim/faults.h"

#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "common/mutex.h"

namespace parkade::sim {
namespace {

struct Fault {
  std::string name;
  long calls_left = 0;
  std::string action;
  std::string argument;
};

[[noreturn]] void Refuse(const std::string& line) {
  fprintf(stderr, "simulated GPU: cannot read the fault '%s'\n", line.c_str());
  exit(2);
}

// Empty when the line is blank, a comment or meant for another process.
std::optional<Fault> Parse(const std::string& line) {
  std::istringstream words(line);
  Fault fault;
  if (!(words >> fault.name) || fault.name[0] == '#') return std::nullopt;
  if (!(words >> fault.calls_left >> fault.action) || fault.calls_left < 1) Refuse(line);
  if (fault.action == "fail" || fault.action == "wait") {
    if (!(words >> fault.argument)) Refuse(line);
  } else if (fault.action != "kill") {
    Refuse(line);
  }
  for (std::string filter; words >> filter;) {
    if (filter.rfind("pid=", 0) != 0) Refuse(line);
    if (atol(filter.c_str() + 4) != long(getpid())) return std::nullopt;
  }
  return fault;
}

class FaultFile {
 public:
  explicit FaultFile(const char* path) : path_(path) {}

  std::optional<CUresult> Apply(const std::string& name) {
    Fault due;
    {
      MutexLock lock(mu_);
      Refresh();
      for (auto& [line, fault] : faults_) {
        if (fault.name != name || fault.calls_left == 0) continue;
        if (--fault.calls_left == 0 && due.name.empty()) due = fault;
      }
    }
    if (due.action == "kill") kill(getpid(), SIGKILL);
    if (due.action == "fail") return CUresult(atoi(due.argument.c_str()));
    if (due.action == "wait") {
      const long ms = atol(due.argument.c_str());
      const timespec pause = {ms / 1000, ms % 1000 * 1'000'000};
      nanosleep(&pause, nullptr);
    }
    return std::nullopt;
  }

  // Around a fork, so that the child finds the lock free and the faults whole.
  void Lock() ACQUIRE(mu_) { mu_.Lock(); }
  void Unlock() RELEASE(mu_) { mu_.Unlock(); }

 private:
  void Refresh() REQUIRES(mu_) {
    struct stat now = {};
    if (stat(path_.c_str(), &now) != 0) now = {};
    if (now.st_mtim.tv_sec == seen_.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == seen_.st_mtim.tv_nsec && now.st_size == seen_.st_size &&
        now.st_ino == seen_.st_ino)
      return;
    seen_ = now;
    std::map<std::string, Fault> fresh;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      const auto known = faults_.find(line);
      if (known != faults_.end()) {
        fresh.insert(*known);
      } else if (auto fault = Parse(line)) {
        fresh.emplace(line, *fault);
      }
    }
    faults_ = std::move(fresh);
  }

  const std::string path_;
  Mutex mu_;
  struct stat seen_ GUARDED_BY(mu_) = {};
  std::map<std::string, Fault> faults_ GUARDED_BY(mu_);
};

FaultFile* OpenFaultFile() {
  const char* path = getenv("SIM_FAULTS");
  if (path == nullptr || *path == '\0') return nullptr;
  static FaultFile* const file = new FaultFile(path);
  pthread_atfork([]() NO_THREAD_SAFETY_ANALYSIS { file->Lock(); },
                 []() NO_THREAD_SAFETY_ANALYSIS { file->Unlock(); },
                 []() NO_THREAD_SAFETY_ANALYSIS { file->Unlock(); });
  return file;
}

}  // namespace

std::optional<CUresult> ApplyFaults(const std::string& name) {
  static FaultFile* const file = OpenFaultFile();
  return file == nullptr ? std::nullopt : file->Apply(name);
}

}  // namespace parkade::sim
