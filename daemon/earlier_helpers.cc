// Finds helpers by their command lines.
#include "daemon/earlier_helpers.h"

#include <dirent.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>

#include "common/text.h"
#include "daemon/driver_helper.h"
#include "daemon/proc_file.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// The process that the command line of a helper names: the word behind the flag.
std::optional<pid_t> ProcessNamedBy(std::string_view command_line) {
  const auto words = Split(command_line, std::string_view("\0", 1));
  if (words.size() != 5 || words[1] != kDriverHelperFlag) return std::nullopt;
  return ReadNumber<pid_t>(words[2]);
}

}  // namespace

EarlierHelpers EarlierHelpers::Find() {
  EarlierHelpers found;
  std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  while (const dirent* entry = proc == nullptr ? nullptr : readdir(proc.get())) {
    const auto pid = ReadNumber<pid_t>(entry->d_name);
    if (!pid) continue;
    // Opened before the rest is read, which is then about this process or about none.
    Fd pidfd(int(syscall(SYS_pidfd_open, *pid, 0)));
    const std::string folder = Cat("/proc/", *pid);
    const auto process = ProcessNamedBy(ReadProcFile(folder + "/cmdline"));
    struct stat s;
    if (pidfd && process && stat(folder.c_str(), &s) == 0) {
      found.helpers_.push_back({*process, s.st_uid, std::move(pidfd)});
    }
  }
  return found;
}

bool EarlierHelpers::AwaitEnd(pid_t pid, uid_t uid, Deadline by) const {
  for (const Helper& helper : helpers_) {
    // Anybody may run a program under such a name; nobody else is to wait for it.
    const bool is_ours = helper.owner == 0 || helper.owner == geteuid() || helper.owner == uid;
    if (helper.process != pid || !is_ours) continue;
    pollfd ended{helper.pidfd.get(), POLLIN, 0};
    if (poll(&ended, 1, by.LeftMs()) != 1) return false;
  }
  return true;
}

}  // namespace parkade::daemon
