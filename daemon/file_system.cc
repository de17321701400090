// Asks statfs, and mountinfo where that only says "overlay".
#include "daemon/file_system.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "common/fd.h"
#include "common/io/memory_files.h"

namespace parkade::daemon {
namespace {

constexpr unsigned long kXfs = 0x58465342;
constexpr unsigned long kZfs = 0x2fc12fc1;
constexpr unsigned long kLocal[] = {
    EXT4_SUPER_MAGIC,      kXfs, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, TMPFS_MAGIC,
    OVERLAYFS_SUPER_MAGIC, kZfs};

Result<unsigned long> TypeOf(int fd) {
  struct statfs fs;
  if (fstatfs(fd, &fs) != 0) return OsError(errno, "look at a file system");
  return static_cast<unsigned long>(fs.f_type);
}

}  // namespace

std::optional<std::string> UpperDirectory(std::span<const MountInfo> mounts, uint64_t mount_id) {
  const auto mount = std::find_if(mounts.begin(), mounts.end(),
                                  [&](const MountInfo& m) { return m.id == mount_id; });
  if (mount == mounts.end() || mount->type != "overlay") return std::nullopt;
  const std::string& options = mount->options;
  constexpr std::string_view kKey = "upperdir=";
  size_t at = options.find(kKey);
  if (at == options.npos || (at != 0 && options[at - 1] != ',')) return std::nullopt;
  at += kKey.size();
  size_t end = at;
  while (end < options.size() && options[end] != ',') end += options[end] == '\\' ? 2 : 1;
  return Unescape(std::string_view(options).substr(at, end - at));
}

Result<bool> IsInMemory(int dir) {
  const auto type = TypeOf(dir);
  if (!type.ok()) return type.error();
  if (IsMemoryType(*type)) return true;
  if (*type != OVERLAYFS_SUPER_MAGIC) return false;
  struct statx mount;
  if (statx(dir, "", AT_EMPTY_PATH, STATX_MNT_ID, &mount) != 0 ||
      (mount.stx_mask & STATX_MNT_ID) == 0) {
    return false;  // before Linux 5.8
  }
  const auto upper = UpperDirectory(ReadMounts(), mount.stx_mnt_id);
  if (!upper) return false;
  const Fd fd(open(upper->c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return false;
  const auto upper_type = TypeOf(fd.get());
  return upper_type.ok() && IsMemoryType(*upper_type);
}

bool IsLocal(int dir) {
  const auto type = TypeOf(dir);
  return type.ok() && std::find(std::begin(kLocal), std::end(kLocal), *type) != std::end(kLocal);
}

}  // namespace parkade::daemon
