// Walks bases by descriptor, never by a path that could change underneath.
#include "daemon/scratch_sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <memory>
#include <set>

#include "common/log.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

constexpr unsigned long kXfs = 0x58465342;
constexpr unsigned long kZfs = 0x2fc12fc1;
// Where a boot id that is not ours can only be an earlier boot's. On NFS, Lustre and the like it
// may be that of another machine that lives.
constexpr unsigned long kLocal[] = {
    EXT4_SUPER_MAGIC,      kXfs, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, TMPFS_MAGIC,
    OVERLAYFS_SUPER_MAGIC, kZfs};

bool IsLocal(int fd) {
  struct statfs fs;
  if (fstatfs(fd, &fs) != 0) return false;
  return std::find(std::begin(kLocal), std::end(kLocal), static_cast<unsigned long>(fs.f_type)) !=
         std::end(kLocal);
}

Fd OpenDirectory(int at, const char* name) {
  return Fd(openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

std::vector<std::string> Names(int dir) {
  std::vector<std::string> names;
  const int own = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // readdir moves the offset
  std::unique_ptr<DIR, int (*)(DIR*)> stream(own < 0 ? nullptr : fdopendir(own), closedir);
  if (stream == nullptr) {
    if (own >= 0) close(own);
    return names;
  }
  while (const dirent* entry = readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

absl::Status NotOurs(const std::string& name, std::string_view why) {
  return Fail(absl::StatusCode::kPermissionDenied, "BAD_SCRATCH",
              Cat("scratch directory ", name, " ", why));
}

bool IsDataName(std::string_view name) {
  return name.starts_with("data.") && name.size() > 5 &&
         std::all_of(name.begin() + 5, name.end(), [](unsigned char c) { return isdigit(c); });
}

// Removes one directory if it is dead.
bool SweepOne(int root, const std::string& name, const std::string& path,
              const std::function<Life(const wire::OwnerRecord&)>& life) {
  auto dir = OpenOwned(root, name);
  if (!dir.ok() || life(dir->owner) != Life::kDead) return false;
  const Fd lock(
      openat(dir->fd.get(), wire::kScratchLock, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (lock && flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return false;
  // Without a lock file an earlier removal stopped in the middle: the owner record goes last.
  if (!lock && errno != ENOENT) return false;
  const absl::Status removed = RemoveScratch(root, name, path);
  if (!removed.ok()) {
    Log(LogLevel::kWarning, "%s", MessageOf(removed).c_str());
    return false;
  }
  Log(LogLevel::kInfo, "removed %s, left by process %d, which is gone", path.c_str(),
      dir->owner.pid);
  return true;
}

}  // namespace

bool IsScratchName(std::string_view name) {
  const size_t dash = name.find('-');
  if (dash == name.npos || dash < 2 || dash > 11 || name[0] != 'p') return false;
  const auto digits = name.substr(1, dash - 1);
  const auto hex = name.substr(dash + 1);
  return hex.size() == 24 &&
         std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return isdigit(c); }) &&
         std::all_of(hex.begin(), hex.end(), [](unsigned char c) { return isxdigit(c); });
}

absl::StatusOr<OwnedDirectory> OpenOwned(int root, const std::string& name) {
  OwnedDirectory found;
  found.fd = OpenDirectory(root, name.c_str());
  if (!found.fd) return NotOurs(name, "cannot be opened");
  struct stat dir, file;
  if (fstat(found.fd.get(), &dir) != 0) return NotOurs(name, "cannot be looked at");
  // O_NONBLOCK: a fifo planted in its place must not stop us.
  const Fd record(
      openat(found.fd.get(), wire::kScratchOwner, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!record || fstat(record.get(), &file) != 0 || !S_ISREG(file.st_mode) ||
      pread(record.get(), &found.owner, sizeof found.owner, 0) != ssize_t(sizeof found.owner) ||
      found.owner.magic != wire::kOwnerMagic || found.owner.version != 1) {
    return NotOurs(name, "has no owner record");
  }
  if (dir.st_uid != found.owner.uid || file.st_uid != found.owner.uid) {
    return NotOurs(name, "is another user's than its record says");
  }
  return found;
}

absl::Status RemoveScratch(int root, const std::string& name, const std::string& path) {
  const auto failed = [&](const char* what) {
    return Annotate(ToStatus(OsError(errno, "%s", path.c_str())), Cat(what, " "), {{"path", path}});
  };
  const Fd dir = OpenDirectory(root, name.c_str());
  if (!dir) {
    if (errno == ENOENT) return absl::OkStatus();
    return failed("open");
  }
  for (const std::string& file : Names(dir.get())) {
    if (IsDataName(file) && unlinkat(dir.get(), file.c_str(), 0) != 0 && errno != ENOENT) {
      return failed("remove the data of");
    }
  }
  // The owner record last: with it a removal that stops in the middle can be finished later.
  for (const char* file : {wire::kScratchLock, wire::kScratchOwner}) {
    if (unlinkat(dir.get(), file, 0) != 0 && errno != ENOENT) return failed("empty");
  }
  if (unlinkat(root, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) return failed("remove");
  return absl::OkStatus();
}

int SweepBase(const std::string& base, const std::function<Life(const wire::OwnerRecord&)>& life) {
  const Fd at(open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!at) return 0;
  const Fd root = OpenDirectory(at.get(), wire::kScratchRoot);
  if (!root || !IsLocal(root.get())) return 0;
  int removed = 0;
  for (const std::string& name : Names(root.get())) {
    const std::string path = Cat(base, "/", wire::kScratchRoot, "/", name);
    if (IsScratchName(name) && SweepOne(root.get(), name, path, life)) ++removed;
  }
  return removed;
}

std::vector<std::string> BasesToSweep(const std::vector<std::string>& configured,
                                      const std::vector<std::string>& remembered) {
  std::set<std::string> bases(configured.begin(), configured.end());
  bases.insert("/scratch");
  for (const std::string& parent : std::vector<std::string>(bases.begin(), bases.end())) {
    const Fd dir(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir) continue;
    for (const std::string& name : Names(dir.get())) {
      if (name.starts_with("parkade_")) bases.insert(Cat(parent, "/", name));
    }
  }
  bases.insert(remembered.begin(), remembered.end());
  return {bases.begin(), bases.end()};
}

}  // namespace parkade::daemon
