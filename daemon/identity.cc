// Reads /proc to tell processes apart.
#include "daemon/identity.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "common/text.h"
#include "daemon/printable.h"
#include "daemon/proc_file.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// include/linux/proc_ns.h, PROC_PID_INIT_INO: from the first namespace every process can be seen.
constexpr uint64_t kFirstPidNamespace = 0xEFFFFFFC;

std::string Path(pid_t pid, const char* file) { return Cat("/proc/", pid, "/", file); }

// The numbers after `field` in /proc/<pid>/status.
std::vector<int64_t> StatusNumbers(pid_t pid, std::string_view field) {
  std::vector<int64_t> numbers;
  const std::string text = ReadProcFile(Path(pid, "status"));
  for (std::string_view line : Split(text, "\n")) {
    if (!line.starts_with(field)) continue;
    for (std::string_view word : Split(line.substr(field.size()), " \t")) {
      if (const auto n = ReadNumber<int64_t>(word)) numbers.push_back(*n);
    }
  }
  return numbers;
}

// Its pid in its own namespace, the innermost of NSpid.
std::optional<int32_t> OwnPid(pid_t pid) {
  const auto numbers = StatusNumbers(pid, "NSpid:");
  if (numbers.empty()) return std::nullopt;
  return int32_t(numbers.back());
}

// /proc may be one of another pid namespace, or none at all; then it says nothing about ours.
bool ProcIsOurs() {
  char self[16] = {};
  return readlink("/proc/self", self, sizeof self - 1) > 0 && ReadNumber<pid_t>(self) == getpid();
}

Fd OpenPidfd(pid_t pid) { return Fd(int(syscall(SYS_pidfd_open, pid, 0))); }

// Looks at every process for one that is `owner`, in a namespace below this one.
bool ExistsBelow(const wire::OwnerRecord& owner) {
  std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  if (proc == nullptr) return true;
  while (const dirent* entry = readdir(proc.get())) {
    const auto number = ReadNumber<pid_t>(entry->d_name);
    if (!number) continue;
    const pid_t pid = *number;
    if (OwnPid(pid) != owner.pid || StartTicks(pid) != owner.start_ticks) continue;
    // One whose namespace may not be read may be it.
    if (PidNamespace(pid).value_or(owner.pid_namespace) == owner.pid_namespace) return true;
  }
  return false;
}

absl::Status FalseIdentity(const Peer& peer, std::string_view what) {
  return Fail(absl::StatusCode::kPermissionDenied, "FALSE_IDENTITY",
              Cat("process ", peer.pid, " claims a false ", what));
}

}  // namespace

absl::StatusOr<Peer> PeerOf(int socket) {
  ucred credentials;
  socklen_t size = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return ToStatus(OsError(errno, "read the credentials of a peer"));
  }
  Peer peer{credentials.pid, credentials.uid, credentials.gid, {}};
  socklen_t bytes = 0;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, nullptr, &bytes) != 0 && errno == ERANGE) {
    peer.groups.resize(bytes / sizeof(gid_t));
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, peer.groups.data(), &bytes) != 0) {
      return ToStatus(OsError(errno, "read the groups of a peer"));
    }
  }
  return peer;
}

std::string BootId() {
  std::string id = ReadProcFile("/proc/sys/kernel/random/boot_id");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

std::optional<uint64_t> StartTicks(pid_t pid) {
  const std::string stat = ReadProcFile(Path(pid, "stat"));
  // The name in parentheses may hold anything, also spaces and parentheses; field 3 follows it.
  const size_t name_end = stat.rfind(')');
  if (name_end == stat.npos) return std::nullopt;
  const auto fields = Split(std::string_view(stat).substr(name_end + 1), " ");
  if (fields.size() < 20) return std::nullopt;
  const auto ticks = ReadNumber<uint64_t>(fields[19]);
  if (fields[0] != "Z" && fields[0] != "X") return ticks;
  // The first thread alone may have ended: the process then lives on with the others.
  const auto threads = StatusNumbers(pid, "Threads:");
  if (threads.empty() || threads[0] <= 1) return std::nullopt;
  return ticks;
}

bool HasEnded(pid_t pid, uint64_t start_ticks) {
  if (const auto ticks = StartTicks(pid)) return *ticks != start_ticks;
  // Where not even our own can be read, what is missing says nothing. Asked again, since that may
  // have been so a moment ago.
  return StartTicks(getpid()).has_value() && StartTicks(pid) != start_ticks;
}

std::optional<uint64_t> PidNamespace(pid_t pid) {
  struct stat s;
  if (stat(Path(pid, "ns/pid").c_str(), &s) != 0) return std::nullopt;
  return s.st_ino;
}

std::string CommandLine(pid_t pid) {
  std::string text = ReadProcFile(Path(pid, "cmdline")).substr(0, 256);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  for (char& c : text) {
    if (c == '\0' || c == '\n') c = ' ';
  }
  return Printable(text);
}

std::vector<gid_t> GroupsOf(pid_t pid) {
  const auto numbers = StatusNumbers(pid, "Groups:");
  return {numbers.begin(), numbers.end()};
}

absl::StatusOr<Identified> Identify(const Peer& peer, const wire::Hello& hello) {
  if (ReadText(hello.boot_id) != BootId()) return FalseIdentity(peer, "boot id");
  Identified found;
  found.identity = {hello.pid_namespace, hello.pid, hello.start_ticks, BootId(),
                    hello.pid,           peer.uid,  peer.gid,          false};
  if (hello.pid <= 0) return FalseIdentity(peer, "pid");
  if (peer.pid == 0) return found;  // in a namespace that is not below ours: only its word

  // The pidfd first: while it is open the pid cannot be another process's, so what /proc says
  // afterwards is about this one.
  found.pidfd = OpenPidfd(peer.pid);
  const auto ticks = StartTicks(peer.pid);
  const auto own_pid = OwnPid(peer.pid);
  if (!found.pidfd || !ticks || !own_pid) {
    return Fail(absl::StatusCode::kUnavailable, "NO_PROCESS",
                Cat("process ", peer.pid, " ended while it connected"));
  }
  if (*ticks != hello.start_ticks) return FalseIdentity(peer, "start time");
  if (*own_pid != hello.pid) return FalseIdentity(peer, "pid");
  // Not readable for another user's process without privileges.
  const auto pid_namespace = PidNamespace(peer.pid);
  if (pid_namespace && *pid_namespace != hello.pid_namespace) {
    return FalseIdentity(peer, "pid namespace");
  }
  found.identity.pid = peer.pid;
  found.identity.visible = true;
  return found;
}

Fd OpenIfAlive(const Identity& identity) {
  if (!identity.visible || identity.boot_id != BootId()) return Fd();
  // As in Identify: the pidfd first.
  Fd pidfd = OpenPidfd(identity.pid);
  const auto pid_namespace = PidNamespace(identity.pid);
  const bool same = StartTicks(identity.pid) == identity.start_ticks &&
                    OwnPid(identity.pid) == identity.own_pid &&
                    (!pid_namespace || *pid_namespace == identity.pid_namespace);
  return same ? std::move(pidfd) : Fd();
}

Life LifeOf(const wire::OwnerRecord& owner) {
  const std::string boot_id = BootId();
  if (boot_id.empty()) return Life::kUnknown;
  if (ReadText(owner.boot_id) != boot_id) return Life::kDead;
  if (!ProcIsOurs()) return Life::kUnknown;
  const auto here = PidNamespace(getpid());
  if (!here) return Life::kUnknown;
  if (owner.pid_namespace == *here) {
    return StartTicks(owner.pid) == owner.start_ticks ? Life::kAlive : Life::kDead;
  }
  // Without root the namespaces of other users' processes cannot be read.
  if (*here != kFirstPidNamespace || geteuid() != 0) return Life::kUnknown;
  return ExistsBelow(owner) ? Life::kAlive : Life::kDead;
}

wire::OwnerRecord OwnerOf(const Identity& identity) {
  wire::OwnerRecord record{
      wire::kOwnerMagic,      1, identity.own_pid, identity.uid, identity.start_ticks,
      identity.pid_namespace, {}};
  CopyText(record.boot_id, identity.boot_id);
  return record;
}

bool IsOwner(const wire::OwnerRecord& record, const Identity& identity) {
  const wire::OwnerRecord expected = OwnerOf(identity);
  return memcmp(&record, &expected, sizeof record) == 0;
}

}  // namespace parkade::daemon
