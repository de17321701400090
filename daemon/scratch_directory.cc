// Makes, grows and deletes one scratch directory.
#include "daemon/scratch_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/scratch_layout.h"
#include "daemon/status.h"
#include "daemon/words.h"
#include "proto/scratch.h"

namespace parkade::daemon {
namespace {

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
  if (fstat(base, &b) != 0) return FileFailed(errno, "look at", base_path);
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
  if (made != 0 && made != EEXIST) return FileFailed(made, "make", path);
  Fd root(openat(base, wire::kScratchRoot, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root) {
    if (errno == ELOOP || errno == ENOTDIR) {
      return Fail(absl::StatusCode::kInvalidArgument, "BAD_SCRATCH",
                  Cat(path, " is not a directory"), {{"path", path}});
    }
    return FileFailed(errno, "open", path);
  }
  struct stat s;
  if (fstat(root.get(), &s) != 0) return FileFailed(errno, "look at", path);
  const bool trusted =
      s.st_uid == user.uid || s.st_uid == 0 || s.st_uid == geteuid() || s.st_uid == b.st_uid;
  const bool shared = (s.st_mode & 0022) != 0 && (s.st_mode & S_ISVTX) == 0;
  if (!trusted || (shared && s.st_uid != user.uid && s.st_gid != user.gid)) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_SCRATCH",
                Cat(path, " can be changed by another user"), {{"path", path}});
  }
  return root;
}

ScratchDirectory::ScratchDirectory(std::string base_path, std::string name, const Identity& owner,
                                   FsUser user)
    : base_path_(std::move(base_path)),
      name_(std::move(name)),
      path_(Cat(base_path_, "/", wire::kScratchRoot, "/", name_)),
      owner_(owner),
      user_(std::move(user)) {}

std::shared_ptr<const ScratchDirectory::Files> ScratchDirectory::files() const {
  const MutexLock lock(mu_);
  return files_;
}

int ScratchDirectory::data() const {
  const auto open = files();
  return open == nullptr ? -1 : open->data.get();
}

absl::StatusOr<std::unique_ptr<ScratchDirectory>> ScratchDirectory::Create(
    int base, const std::string& base_path, const Identity& owner, const FsUser& user) {
  auto root = OpenScratchRoot(base, base_path, user);
  if (!root.ok()) return root.status();
  std::unique_ptr<ScratchDirectory> made(
      new ScratchDirectory(base_path, RandomName(owner.own_pid), owner, user));
  auto files = std::make_shared<Files>();
  files->root = std::move(*root);
  {
    const AsUser as_user(user);
    if (mkdirat(files->root.get(), made->name_.c_str(), 0700) != 0) {
      return FileFailed(errno, "make", made->path_);
    }
  }
  const absl::Status filled = made->Fill(*files);
  {
    const MutexLock lock(made->mu_);
    made->files_ = std::move(files);
  }
  if (filled.ok()) return made;
  // What stopped us may stop the removal too; the first failure is the one to tell.
  made->Remove().IgnoreError();
  return filled;
}

absl::Status ScratchDirectory::Fill(Files& files) {
  const AsUser as_user(user_);
  const int dir = (files.dir = OpenDirectory(files.root.get(), name_.c_str())).get();
  if (dir < 0) return FileFailed(errno, "open", path_);
  // Without an owner record a sweep would take it for one that was never finished, but for this
  // lock. That a sweep was faster is as unlikely as any failure here.
  struct stat s;
  if ((flock(dir, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) ||
      fstatat(files.root.get(), name_.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0) {
    return Fail(absl::StatusCode::kUnavailable, "SCRATCH_SWEPT",
                Cat("a sweep took ", path_, " while it was made; try again"), {{"path", path_}});
  }
  constexpr int kNew = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  lock_.Reset(openat(dir, wire::kScratchLock, kNew, 0600));
  if (!lock_) return FileFailed(errno, "make the lock of", path_);
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return FileFailed(errno, "lock", path_);
  const Fd record_file(openat(dir, wire::kScratchOwner, kNew, 0600));
  if (!record_file) return FileFailed(errno, "make the owner record of", path_);
  const wire::OwnerRecord record = OwnerOf(owner_);
  const ssize_t n = write(record_file.get(), &record, sizeof record);
  if (n != ssize_t(sizeof record)) {
    return FileFailed(n < 0 ? errno : ENOSPC, "write the owner record of", path_);
  }
  files.data.Reset(openat(dir, wire::kScratchData, kNew, 0600));
  if (!files.data) return FileFailed(errno, "make the data file of", path_);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ScratchDirectory>> ScratchDirectory::Claimed(
    const std::string& path, Fd lock, const Identity& owner, const FsUser& user,
    std::vector<std::string> stripe_bases) {
  const size_t name_at = path.rfind('/');
  const std::string root_path = path.substr(0, name_at == path.npos ? 0 : name_at);
  const std::string tail = Cat("/", wire::kScratchRoot);
  if (!root_path.ends_with(tail) || !IsScratchName(path.substr(name_at + 1))) {
    return BadAdoption(path, "has another layout");
  }
  std::unique_ptr<ScratchDirectory> claimed(new ScratchDirectory(
      root_path.substr(0, root_path.size() - tail.size()), path.substr(name_at + 1), owner, user));
  claimed->lock_ = std::move(lock);
  claimed->stripe_bases_ = std::move(stripe_bases);
  return claimed;
}

absl::Status ScratchDirectory::Open() {
  if (auto s = OpenOwn(); !s.ok()) return s;
  FindStripes();
  return absl::OkStatus();
}

absl::Status ScratchDirectory::OpenOwn() {
  const AsUser as_user(user_);
  auto files = std::make_shared<Files>();
  const std::string root_path = path_.substr(0, path_.rfind('/'));
  files->root = OpenDirectory(AT_FDCWD, root_path.c_str());
  if (!files->root) return FileFailed(errno, "open", root_path);
  auto found = LookInto(files->root.get(), name_);
  if (!found.ok()) return Annotate(found.status(), Cat("scratch directory ", path_, ": "));
  if (!found->owner || found->uid != user_.uid || !IsOwner(*found->owner, owner_)) {
    return BadAdoption(path_, "belongs to another process");
  }
  const int dir = found->dir.get();
  struct stat theirs, named, data;
  if (lock_ && (fstat(lock_.get(), &theirs) != 0 ||
                fstatat(dir, wire::kScratchLock, &named, AT_SYMLINK_NOFOLLOW) != 0 ||
                theirs.st_dev != named.st_dev || theirs.st_ino != named.st_ino)) {
    return BadAdoption(path_, "has another lock than the one that came with it");
  }
  files->data.Reset(openat(dir, wire::kScratchData, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!files->data || fstat(files->data.get(), &data) != 0 || !S_ISREG(data.st_mode)) {
    return BadAdoption(path_, "has no data file");
  }
  files->dir = std::move(found->dir);
  const MutexLock lock(mu_);
  if (files_ != nullptr) return absl::OkStatus();
  bytes_ = Bytes(data.st_size);
  files_ = std::move(files);
  return absl::OkStatus();
}

absl::Status ScratchDirectory::Check(int base) {
  if (files() == nullptr) {
    if (auto s = Open(); !s.ok()) return s;
  }
  const auto open = files();
  const AsUser as_user(user_);
  // Not by the descriptors at hand: they reach a deleted file, or one of a file system that lies
  // under another mount by now, as well as ever.
  const Fd root = OpenDirectory(base, wire::kScratchRoot);
  const Fd dir = root ? OpenDirectory(root.get(), name_.c_str()) : Fd();
  const auto same = [&](const char* name, int ours) {
    struct stat named, held;
    return fstatat(dir.get(), name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(ours, &held) == 0 &&
           named.st_dev == held.st_dev && named.st_ino == held.st_ino;
  };
  if (!dir) return FileFailed(errno, "open", path_);
  if (!same(".", open->dir.get()) || !same(wire::kScratchData, open->data.get()) ||
      (lock_ && !same(wire::kScratchLock, lock_.get()))) {
    return BadAdoption(path_, "has been replaced");
  }
  return absl::OkStatus();
}

absl::Status ScratchDirectory::Reserve(Bytes bytes) {
  bytes = RoundUp(bytes, 4096);
  const Bytes had = bytes_;
  if (bytes <= had) return absl::OkStatus();
  const auto open = files();
  const int data = open->data.get();
  const AsUser as_user(user_);
  // Asked first: ext4 and XFS hand out every block they have before they say that there are not
  // enough, and for that moment everybody else's writes fail.
  struct statvfs space;
  if (fstatvfs(data, &space) == 0) {
    const Bytes free_bytes = Bytes(space.f_bavail) * space.f_frsize;
    if (bytes - had > free_bytes) {
      return Fail(absl::StatusCode::kResourceExhausted, "DISK_SPACE",
                  Cat("no space for ", InUnits(bytes - had), " more in ", path_, ": ",
                      InUnits(free_bytes), " are free"),
                  {{"path", path_},
                   {"needed_bytes", std::to_string(bytes - had)},
                   {"free_bytes", std::to_string(free_bytes)}});
    }
  }
  if (const int failed = Allocate(data, off_t(had), off_t(bytes)); failed != 0) {
    // Give back what was taken before it failed.
    [[maybe_unused]] const int r = ftruncate(data, off_t(had));
    return Annotate(FileFailed(failed, Cat("reserve ", InUnits(bytes), " in"), path_), "",
                    {{"needed_bytes", std::to_string(bytes - had)}});
  }
  bytes_ = bytes;
  return absl::OkStatus();
}

bool ScratchDirectory::LetGo() {
  if (files() == nullptr && !Open().ok()) return false;
  lock_.Reset();
  const auto open = files();
  const AsUser as_user(user_);
  const Fd lock(
      openat(open->dir.get(), wire::kScratchLock, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return lock && flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

absl::Status ScratchDirectory::Remove() {
  if (files() == nullptr) {
    if (auto s = Open(); !s.ok()) return s;
  }
  absl::Status removed;
  {
    const auto open = files();
    // As the user, since on a network file system root may be nobody.
    const AsUser as_user(user_);
    removed = RemoveScratch(open->root.get(), open->dir.get(), name_, path_);
  }
  for (const auto& stripe : stripes()) removed.Update(stripe->Remove());
  return removed;
}

}  // namespace parkade::daemon
