// AsUser: lets the calling thread use the file system as another user for a while.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace parkade::daemon {

// Who touches files: the user of a process.
struct FsUser {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
};

// While it lives the kernel checks this thread's file accesses, quotas and reserved blocks as
// those of `user`, and what it creates belongs to `user`. Without root it changes nothing: then
// the daemon can serve its own user alone. Destroy on the same thread; do not nest.
class AsUser {
 public:
  explicit AsUser(const FsUser& user);
  ~AsUser();
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;

 private:
  bool active_;
  uint32_t effective_[2] = {};  // capabilities to put back
  std::vector<gid_t> groups_;
};

}  // namespace parkade::daemon
