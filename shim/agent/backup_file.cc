// Makes the file by O_TMPFILE, or by a name that goes at once.
#include "shim/agent/backup_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "common/deadline.h"
#include "common/io/memory_files.h"
#include "shim/libc/inherited_files.h"

namespace parkade::shim {
namespace {

constexpr mode_t kMode = 0600;

// Where the file system has no files without a name.
Fd MakeAndUnlink(const char* directory) {
  char path[4096];
  const int length = snprintf(path, sizeof path, "%s/.parkade-%d-%llx", directory, int(getpid()),
                              (unsigned long long)MonotonicNs());
  if (length < 0 || size_t(length) >= sizeof path) {
    errno = ENAMETOOLONG;
    return Fd();
  }
  Fd fd(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kMode));
  if (!fd || unlink(path) == 0) return fd;
  return Fd();  // a file that others can reach will not do
}

Result<Fd> Make(const std::string& directory) {
  Fd fd(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode));
  // EISDIR: a kernel that does not know the flag.
  if (!fd && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    fd = MakeAndUnlink(directory.c_str());
  }
  if (fd) return fd;
  return OsError(errno, "making a file for backups in %s", directory.c_str());
}

Result<void> Grow(int fd, Bytes bytes, const std::string& directory) {
  if (fallocate(fd, 0, 0, off_t(bytes)) == 0) return {};
  if (errno == EOPNOTSUPP && ftruncate(fd, off_t(bytes)) == 0) return {};
  return OsError(errno, "%llu MiB for backups in %s", (unsigned long long)bytes >> 20,
                 directory.c_str());
}

}  // namespace

Result<Fd> BackupFile::Reserve(const std::string& directory, Bytes bytes, bool in_use) {
  if (fd_ && (in_use || directory == directory_)) {
    if (bytes > bytes_) {
      if (auto grown = Grow(fd_.get(), bytes, directory_); !grown.ok()) return grown.error();
      bytes_ = bytes;
    }
  } else {
    auto made = Make(directory);
    if (!made.ok()) return made.error();
    if (auto grown = Grow(made->get(), bytes, directory); !grown.ok()) return grown.error();
    fd_ = std::move(*made);
    directory_ = directory;
    bytes_ = bytes;
    ReadLink();
  }
  Fd given(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!given) return OsError(errno, "a descriptor of the file for backups");
  return given;
}

bool BackupFile::is_in_memory() const { return IsMemoryFile(fd_.get()); }

void BackupFile::ReadLink() {
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd_.get());
  const ssize_t length = readlink(path, link_, sizeof link_ - 1);
  link_[length > 0 ? length : 0] = '\0';
}

void BackupFile::Close() {
  link_[0] = '\0';
  fd_ = Fd();
  bytes_ = 0;
}

void BackupFile::AbandonAfterFork() {
  if (link_[0] != '\0') CloseInheritedFiles(link_);
}

}  // namespace parkade::shim
