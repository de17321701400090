// Selector and Caller: which processes a request is about, and which its sender may see.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "daemon/process.h"

namespace parkade::daemon {

// Fields that are set must all match; see Selector in control.proto.
struct Selector {
  std::vector<int32_t> pids;
  std::string job, role, cell;
  std::vector<int32_t> ranks;
  std::vector<std::string> gpu_uuids;
  bool all = false;
  std::vector<Selector> also;  // which must match as well: a group's

  bool empty() const {
    return pids.empty() && job.empty() && role.empty() && cell.empty() && ranks.empty() &&
           gpu_uuids.empty() && !all && also.empty();
  }
};

// Who asks: the user at the other end of the control socket, or a client with a certificate.
struct Caller {
  uid_t uid = 0;
  bool sees_all = false;         // root, a member of the group `parkade`, or a client
  std::string certificate = {};  // the name in it; empty: a user of this machine

  // Of the one caller, whom nobody else's request ids are mixed up with.
  std::string Name() const {
    return certificate.empty() ? "uid " + std::to_string(uid) : "certificate " + certificate;
  }

  bool MaySee(uid_t other) const { return sees_all || uid == other; }
  bool MaySee(const Identity& identity) const { return MaySee(identity.uid); }
};

// True also for an empty selector.
bool Matches(const Selector& selector, const ProcessView& process);

// "GPU-01234567-89ab-...", as nvidia-smi prints it.
std::string GpuUuid(const unsigned char (&uuid)[16]);

}  // namespace parkade::daemon
