// Checks the daemon: its sockets, its answers, its version and those of the libraries in programs.
#include <string.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>

#include "absl/strings/str_cat.h"
#include "cli/doctor_checks.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/preload.h"

namespace parkade::cli {
namespace {

constexpr char kStart[] = "sudo systemctl enable --now parkaded";
constexpr char kRestart[] = "sudo systemctl restart parkaded";

Finding CheckSocket(const std::string& path) {
  struct stat s;
  if (lstat(path.c_str(), &s) != 0) {
    return {Level::kError, "daemon", absl::StrCat(path, " cannot be looked at: ", strerror(errno)),
            kStart};
  }
  if (!S_ISSOCK(s.st_mode)) {
    return {Level::kError, "daemon", absl::StrCat(path, " is not a socket"), kRestart};
  }
  // Callers of every user connect; the kernel says who each is.
  if ((s.st_mode & 0666) != 0666) {
    return {Level::kWarning, "daemon",
            absl::StrCat(path, " is not open to every user: others are refused by the kernel"),
            absl::StrCat("chmod 0666 ", path)};
  }
  return {Level::kOk, "daemon", absl::StrCat(path, " is a socket, open to every user"), ""};
}

// The processes whose library is of another version than the daemon, by that version.
Findings CheckLibraries(const NodeAnswers& answers) {
  std::map<std::string, std::string> others;
  for (const v1::Process& process : answers.processes) {
    if (process.shim_version() == answers.node.daemon_version()) continue;
    std::string& pids = others[process.shim_version()];
    absl::StrAppend(&pids, pids.empty() ? "" : ", ", process.pid());
  }
  Findings found;
  for (const auto& [version, pids] : others) {
    found.push_back({Level::kNote, "version",
                     absl::StrCat("the library in ", pids, " is ", OrDash(Printable(version)),
                                  ", the daemon ", Printable(answers.node.daemon_version()),
                                  ": a program keeps the one that it was started with"),
                     ""});
  }
  if (others.empty() && !answers.processes.empty()) {
    found.push_back({Level::kOk, "version",
                     absl::StrCat("the library in all ", answers.processes.size(),
                                  " processes is of the daemon's version"),
                     ""});
  }
  return found;
}

}  // namespace

Findings CheckSockets(const std::string& runtime_dir) {
  struct stat s;
  if (stat(runtime_dir.c_str(), &s) != 0) {
    return {{Level::kError, "daemon",
             absl::StrCat("there is no runtime directory ", Printable(runtime_dir), ": ",
                          strerror(errno)),
             kStart}};
  }
  return {CheckSocket(runtime_dir + "/control.sock"), CheckSocket(runtime_dir + "/shim.sock")};
}

Findings CheckDaemon(const NodeAnswers& answers, const std::string& own_version) {
  if (!answers.status.ok()) {
    return {{Level::kError, "daemon",
             absl::StrCat("no daemon answers: ", std::string(answers.status.message())), kStart}};
  }
  const std::string version = Printable(answers.node.daemon_version());
  Findings found{{Level::kOk, "daemon", absl::StrCat("the daemon answers, version ", version), ""}};
  if (version != own_version) {
    found.push_back({Level::kWarning, "version",
                     absl::StrCat("the daemon is ", version, ", this command line ", own_version),
                     kRestart});
  }
  for (Finding& finding : CheckLibraries(answers)) found.push_back(std::move(finding));
  if (answers.node.gpu_source() != "nvml") {
    found.push_back(
        {Level::kWarning, "driver",
         absl::StrCat("the daemon has no figures of GPUs: ", Printable(answers.node.gpu_source())),
         kRestart});
  }
  return found;
}

Findings CheckLibraryFile() {
  const auto library = FindLibrary();
  const absl::Status status = library.ok() ? CheckLibrary(*library) : library.status();
  if (!status.ok()) {
    return {{Level::kError, "library", Printable(std::string(status.message())),
             "sudo apt install libparkade"}};
  }
  return {{Level::kOk, "library", absl::StrCat(Printable(*library), " loads"), ""}};
}

}  // namespace parkade::cli
