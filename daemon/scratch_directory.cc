// Makes, grows and deletes one scratch directory.
#include "daemon/scratch_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/scratch_sweep.h"
#include "daemon/status.h"
#include "daemon/words.h"
#include "proto/scratch.h"

namespace parkade::daemon {
namespace {

absl::Status Failed(int os_errno, std::string_view what, const std::string& path) {
  return Annotate(ToStatus(OsError(os_errno, "%s", path.c_str())), Cat(what, " "),
                  {{"path", path}});
}

std::string RandomName(int32_t pid) {
  unsigned char bytes[12];
  // Cannot fail for so few bytes once the machine has booted.
  while (getrandom(bytes, sizeof bytes, 0) != ssize_t(sizeof bytes)) {
  }
  std::string name = Cat("p", pid, "-");
  for (unsigned char byte : bytes) {
    constexpr char kHex[] = "0123456789abcdef";
    name += {kHex[byte >> 4], kHex[byte & 15]};
  }
  return name;
}

absl::Status BadAdoption(const std::string& path, std::string_view why) {
  return Fail(absl::StatusCode::kPermissionDenied, "BAD_SCRATCH",
              Cat("scratch directory ", path, " ", why), {{"path", path}});
}

// Room for [from, to) in the file.
int Allocate(int fd, off_t from, off_t to) {
  int r;
  do r = fallocate(fd, 0, from, to - from) == 0 ? 0 : errno;
  while (r == EINTR);
  // NFS before 4.2 and some others have no fallocate; glibc then writes into every block.
  if (r == EOPNOTSUPP || r == ENOSYS) r = posix_fallocate(fd, from, to - from);
  return r;
}

}  // namespace

absl::StatusOr<Fd> OpenScratchRoot(int base, const std::string& base_path, const FsUser& user) {
  const std::string path = Cat(base_path, "/", wire::kScratchRoot);
  struct stat b;
  if (fstat(base, &b) != 0) return Failed(errno, "look at", base_path);
  int made;
  const auto make = [&] {
    made = mkdirat(base, wire::kScratchRoot, 0700) == 0 ? 0 : errno;
    if (made != 0) return;
    // As wide as the base, so that what other users may do there they may do here; the umask must
    // not narrow it.
    const mode_t mode = (b.st_mode & 07777) | 0755;
    if (fchmodat(base, wire::kScratchRoot, mode, 0) != 0) made = errno;
  };
  if (b.st_uid == user.uid) {
    const AsUser as_user(user);
    make();
  } else {
    // In a base that users share the first of them must not own everybody's root.
    make();
    if (made == EACCES) {
      const AsUser as_user(user);
      make();
    }
  }
  if (made != 0 && made != EEXIST) return Failed(made, "make", path);
  Fd root(openat(base, wire::kScratchRoot, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root) {
    if (errno == ELOOP || errno == ENOTDIR) {
      return Fail(absl::StatusCode::kInvalidArgument, "BAD_SCRATCH",
                  Cat(path, " is not a directory"), {{"path", path}});
    }
    return Failed(errno, "open", path);
  }
  struct stat s;
  if (fstat(root.get(), &s) != 0) return Failed(errno, "look at", path);
  const bool trusted =
      s.st_uid == user.uid || s.st_uid == 0 || s.st_uid == geteuid() || s.st_uid == b.st_uid;
  const bool shared = (s.st_mode & 0022) != 0 && (s.st_mode & S_ISVTX) == 0;
  if (!trusted || (shared && s.st_uid != user.uid && s.st_gid != user.gid)) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_SCRATCH",
                Cat(path, " can be changed by another user"), {{"path", path}});
  }
  return root;
}

absl::StatusOr<std::unique_ptr<ScratchDirectory>> ScratchDirectory::Create(
    int base, const std::string& base_path, const Identity& owner, const FsUser& user) {
  auto root = OpenScratchRoot(base, base_path, user);
  if (!root.ok()) return root.status();
  std::unique_ptr<ScratchDirectory> made(
      new ScratchDirectory(base_path, RandomName(owner.own_pid), user));
  made->root_ = std::move(*root);
  made->path_ = Cat(base_path, "/", wire::kScratchRoot, "/", made->name_);
  {
    const AsUser as_user(user);
    if (mkdirat(made->root_.get(), made->name_.c_str(), 0700) != 0) {
      return Failed(errno, "make", made->path_);
    }
  }
  if (auto s = made->Fill(owner); !s.ok()) {
    // What stopped us may stop the removal too; the first failure is the one to tell.
    made->Remove().IgnoreError();
    return s;
  }
  return made;
}

absl::Status ScratchDirectory::Fill(const Identity& owner) {
  const AsUser as_user(user_);
  dir_.Reset(openat(root_.get(), name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!dir_) return Failed(errno, "open", path_);
  constexpr int kNew = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  lock_.Reset(openat(dir_.get(), wire::kScratchLock, kNew, 0600));
  if (!lock_) return Failed(errno, "make the lock of", path_);
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return Failed(errno, "lock", path_);
  const Fd record_file(openat(dir_.get(), wire::kScratchOwner, kNew, 0600));
  if (!record_file) return Failed(errno, "make the owner record of", path_);
  const wire::OwnerRecord record = OwnerOf(owner);
  const ssize_t n = write(record_file.get(), &record, sizeof record);
  if (n != ssize_t(sizeof record)) {
    return Failed(n < 0 ? errno : ENOSPC, "write the owner record of", path_);
  }
  data_.Reset(openat(dir_.get(), wire::kScratchData, kNew, 0600));
  if (!data_) return Failed(errno, "make the data file of", path_);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ScratchDirectory>> ScratchDirectory::Adopt(const std::string& path,
                                                                          Fd lock,
                                                                          const Identity& owner,
                                                                          const FsUser& user) {
  const size_t name_at = path.rfind('/');
  const std::string root_path = path.substr(0, name_at == path.npos ? 0 : name_at);
  const std::string tail = Cat("/", wire::kScratchRoot);
  if (!root_path.ends_with(tail) || !IsScratchName(path.substr(name_at + 1))) {
    return BadAdoption(path, "has another layout");
  }
  std::unique_ptr<ScratchDirectory> found(new ScratchDirectory(
      root_path.substr(0, root_path.size() - tail.size()), path.substr(name_at + 1), user));
  found->path_ = path;
  const AsUser as_user(user);
  found->root_.Reset(open(root_path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!found->root_) return Failed(errno, "open", root_path);
  auto dir = OpenOwned(found->root_.get(), found->name_);
  if (!dir.ok()) return dir.status();
  if (!IsOwner(dir->owner, owner)) return BadAdoption(path, "belongs to another process");
  struct stat theirs, named;
  if (lock && (fstat(lock.get(), &theirs) != 0 ||
               fstatat(dir->fd.get(), wire::kScratchLock, &named, AT_SYMLINK_NOFOLLOW) != 0 ||
               theirs.st_dev != named.st_dev || theirs.st_ino != named.st_ino)) {
    return BadAdoption(path, "has another lock than the one that came with it");
  }
  found->dir_ = std::move(dir->fd);
  found->lock_ = std::move(lock);
  found->data_.Reset(
      openat(found->dir_.get(), wire::kScratchData, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat data;
  if (!found->data_ || fstat(found->data_.get(), &data) != 0 || !S_ISREG(data.st_mode)) {
    return BadAdoption(path, "has no data file");
  }
  found->bytes_ = Bytes(data.st_size);
  return found;
}

absl::Status ScratchDirectory::Reserve(Bytes bytes) {
  bytes = RoundUp(bytes, 4096);
  if (bytes <= bytes_) return absl::OkStatus();
  const AsUser as_user(user_);
  // Asked first: ext4 and XFS hand out every block they have before they say that there are not
  // enough, and for that moment everybody else's writes fail.
  struct statvfs space;
  if (fstatvfs(data_.get(), &space) == 0) {
    const Bytes free_bytes = Bytes(space.f_bavail) * space.f_frsize;
    if (bytes - bytes_ > free_bytes) {
      return Fail(absl::StatusCode::kResourceExhausted, "DISK_SPACE",
                  Cat("no space for ", bytes, " bytes in ", path_, ": ", free_bytes, " are free"),
                  {{"path", path_},
                   {"needed_bytes", std::to_string(bytes)},
                   {"free_bytes", std::to_string(free_bytes)}});
    }
  }
  if (const int failed = Allocate(data_.get(), off_t(bytes_), off_t(bytes)); failed != 0) {
    // Give back what was taken before it failed.
    [[maybe_unused]] const int r = ftruncate(data_.get(), off_t(bytes_));
    return Annotate(Failed(failed, Cat("reserve ", bytes, " bytes in"), path_), "",
                    {{"needed_bytes", std::to_string(bytes)}});
  }
  bytes_ = bytes;
  return absl::OkStatus();
}

absl::Status ScratchDirectory::Remove() {
  // As the user, since on a network file system root may be nobody.
  const AsUser as_user(user_);
  return RemoveScratch(root_.get(), name_, path_);
}

}  // namespace parkade::daemon
