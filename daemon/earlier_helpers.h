// EarlierHelpers: driver helpers that have outlived the daemon that started them.
#pragma once

#include <sys/types.h>

#include <vector>

#include "common/deadline.h"
#include "common/fd.h"

namespace parkade::daemon {

// A call that one of them is in still changes where its process is, also after the driver has been
// asked about that: it is waited for first. Thread-safe.
class EarlierHelpers {
 public:
  // All that are now; before this daemon starts any of its own.
  static EarlierHelpers Find();

  // Waits until none of them is about process `pid` of user `uid` any more. False: one still is.
  bool AwaitEnd(pid_t pid, uid_t uid, Deadline by) const;

 private:
  struct Helper {
    pid_t process;  // that it is about, as it says
    uid_t owner;
    Fd pidfd;
  };
  std::vector<Helper> helpers_;
};

}  // namespace parkade::daemon
