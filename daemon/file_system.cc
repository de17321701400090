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
#include "daemon/proc_file.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

constexpr size_t kMountInfoBytes = 8 << 20;  // a node of many containers has thousands of lines
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

bool IsMemory(unsigned long type) { return type == TMPFS_MAGIC || type == RAMFS_MAGIC; }

// Undoes what mountinfo does to spaces ("\040"), and overlay to its own commas and colons ("\,").
std::string Unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    const std::string_view octal = text.substr(i + 1, 3);
    if (octal.size() == 3 && octal.find_first_not_of("01234567") == octal.npos) {
      plain += char((octal[0] - '0') * 64 + (octal[1] - '0') * 8 + (octal[2] - '0'));
      i += 3;
    } else {
      plain += text[++i];
    }
  }
  return plain;
}

}  // namespace

std::optional<std::string> UpperDirectory(const std::string& mountinfo, uint64_t mount_id) {
  for (const std::string_view line : Split(mountinfo, "\n")) {
    const auto words = Split(line, " ");
    if (words.size() < 5 || ReadNumber<uint64_t>(words[0]) != mount_id) continue;
    // Optional fields end with "-"; type, source and the file system's options follow it.
    const auto dash = std::find(words.begin() + 5, words.end(), "-");
    if (std::distance(dash, words.end()) < 4 || dash[1] != "overlay") return std::nullopt;
    // mountinfo escapes the backslash of overlay's escapes, so its layer comes off first.
    const std::string options = Unescape(dash[3]);
    constexpr std::string_view kKey = "upperdir=";
    size_t at = options.find(kKey);
    if (at == options.npos || (at != 0 && options[at - 1] != ',')) return std::nullopt;
    at += kKey.size();
    size_t end = at;
    while (end < options.size() && options[end] != ',') end += options[end] == '\\' ? 2 : 1;
    return Unescape(std::string_view(options).substr(at, end - at));
  }
  return std::nullopt;
}

Result<bool> IsInMemory(int dir) {
  const auto type = TypeOf(dir);
  if (!type.ok()) return type.error();
  if (IsMemory(*type)) return true;
  if (*type != OVERLAYFS_SUPER_MAGIC) return false;
  struct statx mount;
  if (statx(dir, "", AT_EMPTY_PATH, STATX_MNT_ID, &mount) != 0 ||
      (mount.stx_mask & STATX_MNT_ID) == 0) {
    return false;  // before Linux 5.8
  }
  const std::string mounts = ReadProcFile("/proc/self/mountinfo", kMountInfoBytes);
  const auto upper = UpperDirectory(mounts, mount.stx_mnt_id);
  if (!upper) return false;
  const Fd fd(open(upper->c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return false;
  const auto upper_type = TypeOf(fd.get());
  return upper_type.ok() && IsMemory(*upper_type);
}

bool IsLocal(int dir) {
  const auto type = TypeOf(dir);
  return type.ok() && std::find(std::begin(kLocal), std::end(kLocal), *type) != std::end(kLocal);
}

}  // namespace parkade::daemon
