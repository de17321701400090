// Which file systems keep their files in host memory, where a backup or a store saves none.
#pragma once

#include <linux/magic.h>
#include <sys/vfs.h>

namespace parkade {

// `type`: statfs's f_type.
constexpr bool IsMemoryType(unsigned long type) {
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

// Whether an open file or directory is on one itself; of an overlay the daemon knows more
// (daemon/file_system.h). False where the system does not say.
inline bool IsMemoryFile(int fd) {
  struct statfs info = {};
  return fstatfs(fd, &info) == 0 && IsMemoryType(static_cast<unsigned long>(info.f_type));
}

}  // namespace parkade
