// What kind of file system a directory is on.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "common/result.h"
#include "daemon/mount_info.h"

namespace parkade::daemon {

// Whether its files are host memory: tmpfs, ramfs, or an overlay that writes to one. Of an overlay
// whose upper directory cannot be seen from here it says no.
Result<bool> IsInMemory(int dir);

// Whether it is a file system of this machine alone, so that a boot id that is not ours can only be
// an earlier boot's. On NFS, Lustre and the like it may be that of another machine that lives.
bool IsLocal(int dir);

// The upper directory of the overlay that is mounted as `mount_id`. Empty: that mount is no
// overlay, or only to be read.
std::optional<std::string> UpperDirectory(std::span<const MountInfo> mounts, uint64_t mount_id);

}  // namespace parkade::daemon
