// Unmanaged: why a process that lives is none of those that there are to pause.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "daemon/identity.h"
#include "daemon/selector.h"

namespace parkade::daemon {

class Unmanaged {
 public:
  // A shim was turned away because its wire is of another version. Any thread.
  void TurnedAway(const Peer& peer, uint32_t version, std::string shim_version) EXCLUDES(mu_);

  // Of a pid that the registry does not know:
  //   FAILED_PRECONDITION  ABI_MISMATCH: its shim was turned away; metadata has version, accepted
  //   and,
  //                        where it said so, shim_version
  //                        NOT_INSTRUMENTED: it lives and has not loaded libparkade.so
  //   PERMISSION_DENIED    UID_MISMATCH: it lives and is another user's
  //   NOT_FOUND            NO_PROCESS: anything else, as a process without a CUDA context
  // Reads /proc; any thread.
  absl::Status Explain(const Caller& caller, pid_t pid) const EXCLUDES(mu_);

 private:
  static constexpr size_t kMost = 1024;  // the oldest are forgotten: of a restarting job, the dead

  struct Stranger {
    uint64_t start_ticks;
    uint32_t version;
    std::string shim_version;
    uint64_t number;  // in the order of their coming
  };

  mutable Mutex mu_;  // innermost; /proc is read without it
  std::map<pid_t, Stranger> turned_away_ GUARDED_BY(mu_);
  uint64_t next_ GUARDED_BY(mu_) = 0;
};

}  // namespace parkade::daemon
