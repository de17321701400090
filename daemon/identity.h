// Identity: which process something is about, for certain. Never a bare pid, which is used again.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fd.h"
#include "proto/scratch.h"
#include "proto/wire.h"

namespace parkade::daemon {

struct Identity {
  uint64_t pid_namespace = 0;  // inode
  int32_t own_pid = 0;         // in that namespace
  uint64_t start_ticks = 0;    // field 22 of /proc/<pid>/stat
  std::string boot_id;
  // As this daemon's pid namespace numbers it. The process's own number where it is not visible
  // here.
  int32_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  bool visible = false;  // in this daemon's /proc

  // Equal identities are one process; the other fields follow from these.
  auto Key() const { return std::tie(boot_id, pid_namespace, own_pid, start_ticks); }
};

// Who is at the other end of a Unix socket, as the kernel says.
struct Peer {
  pid_t pid = 0;  // 0: not visible in this pid namespace
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
};
absl::StatusOr<Peer> PeerOf(int socket);

// This boot, from /proc/sys/kernel/random/boot_id.
std::string BootId();
// Empty when there is no such process, or it is a zombie.
std::optional<uint64_t> StartTicks(pid_t pid);
// Whether the process that began then is there no more. False where that cannot be found out, as
// without a descriptor to open anything of /proc.
bool HasEnded(pid_t pid, uint64_t start_ticks);
// Empty also when it may not be read.
std::optional<uint64_t> PidNamespace(pid_t pid);
// First 256 bytes of its command line, printable.
std::string CommandLine(pid_t pid);
// Its supplementary groups.
std::vector<gid_t> GroupsOf(pid_t pid);

struct Identified {
  Identity identity;
  Fd pidfd;  // empty when the process is not visible here
};

// Checks what a process claims in its Hello against /proc and the socket's credentials.
// PERMISSION_DENIED (FALSE_IDENTITY) when they differ, UNAVAILABLE (NO_PROCESS) when it has ended.
absl::StatusOr<Identified> Identify(const Peer& peer, const wire::Hello& hello);

// A pidfd of the process; empty when it has ended, or is not visible here.
Fd OpenIfAlive(const Identity& identity);

enum class Life { kAlive, kDead, kUnknown };
// Whether the owner of a scratch directory lives. kDead only when that is certain: another boot of
// this machine, or no such process in a pid namespace that can be seen from here.
Life LifeOf(const wire::OwnerRecord& owner);

wire::OwnerRecord OwnerOf(const Identity& identity);
bool IsOwner(const wire::OwnerRecord& record, const Identity& identity);

}  // namespace parkade::daemon
