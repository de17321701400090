// Identity: what tells this process apart from every other, also after a reboot or a reused pid.
#pragma once

#include <cstdint>

#include "common/result.h"

namespace parkade::shim {

struct Identity {
  int32_t pid;             // as this process sees itself
  uint64_t start_ticks;    // field 22 of /proc/self/stat, clock ticks since boot
  uint64_t pid_namespace;  // inode of /proc/self/ns/pid
  char boot_id[40];        // NUL-padded text of /proc/sys/kernel/random/boot_id
};

// Reads /proc; fails where it is not mounted.
Result<Identity> ReadIdentity();

}  // namespace parkade::shim
