// Switches fsuid, fsgid, groups and capabilities of one thread.
#include "daemon/fs_user.h"

#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace parkade::daemon {
namespace {

// glibc's setgroups() would change every thread of the process; the system call changes one.
void SetThreadGroups(std::span<const gid_t> groups) {
  syscall(SYS_setgroups, groups.size(), groups.data());
}

struct Capabilities {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct words[2] = {};

  bool Read() { return syscall(SYS_capget, &header, words) == 0; }
  void Write() { syscall(SYS_capset, &header, words); }
};

}  // namespace

AsUser::AsUser(const FsUser& user) : active_(geteuid() == 0) {
  if (!active_) return;
  groups_.resize(size_t(getgroups(0, nullptr)));
  groups_.resize(size_t(getgroups(int(groups_.size()), groups_.data())));
  Capabilities caps;
  if (caps.Read()) {
    for (int i = 0; i < 2; ++i) effective_[i] = caps.words[i].effective;
    // With it quotas and the blocks reserved for root would not count.
    caps.words[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
    caps.Write();
  }
  SetThreadGroups(user.groups);
  setfsgid(user.gid);
  setfsuid(user.uid);  // also drops the capabilities that override permissions
}

AsUser::~AsUser() {
  if (!active_) return;
  setfsuid(geteuid());
  setfsgid(getegid());
  SetThreadGroups(groups_);
  Capabilities caps;
  if (!caps.Read()) return;
  for (int i = 0; i < 2; ++i) caps.words[i].effective = effective_[i];
  caps.Write();
}

}  // namespace parkade::daemon
