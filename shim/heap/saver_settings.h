// SaverSettings: what a program asks for by torch_memory_saver's functions and variables: for
// memory that a thread allocates, and for the process.
//
// It needs no part of the shim, so that settings can be made before the first context; a forked
// child goes on with its parent's. All of it is for application threads, which may read the
// environment: each variable is read once, when something of it is first asked for.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/bytes.h"
#include "shim/heap/range.h"
#include "shim/libc/own_name.h"

namespace parkade::shim {

class SaverSettings {
 public:
  // Whether this library stands in torch_memory_saver's place: it was loaded under a file name with
  // "torch_memory_saver" in it, or LD_PRELOAD has such a name for it. Then memory that a thread
  // allocates inside a region can be paused, and no other.
  static bool InForce() {
    static constinit std::atomic<int> known{-1};
    int in_force = known.load(std::memory_order_relaxed);
    if (in_force < 0) {
      in_force = IsLoadedAs("torch_memory_saver") ? 1 : 0;
      known.store(in_force, std::memory_order_relaxed);
    }
    return in_force != 0;
  }

  // Of one thread: TMS_INIT_ENABLE, _ENABLE_CPU_BACKUP, _ENABLE_DISK_BACKUP, _CPU_BACKUP_BACKEND
  // and the tag "default", until it says otherwise.
  struct Thread {
    bool known;  // false: not read yet
    bool region;
    bool cpu_backup;
    bool disk_backup;
    bool pageable;  // the backend "mmap"
    char tag[sizeof Range::tag];

    // Not for one that asks for both backups.
    Saving saving() const;
  };
  static Thread& Mine();

  // GPU memory that an allocation inside a region has to leave free.
  static Bytes margin();
  static void SetMargin(Bytes bytes);
  // Whether backups in host memory outlive a resume: TMS_RETAIN_CPU_BACKUP.
  static bool retains();
  static void SetRetains(bool retains);
  // Where files for backups go: TMS_DISK_BACKUP_DIR, else /tmp.
  static std::string directory();
  static void SetDirectory(std::string_view directory);
  // Host memory that bytes on their way to and from files may use: TMS_DISK_BACKUP_CHUNK_MB, 256
  // MiB where it is not set or 0; 8 MiB to 4 GiB.
  static Bytes chunk();
};

}  // namespace parkade::shim
