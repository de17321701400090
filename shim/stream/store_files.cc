// Makes, locks and removes a store's directories and files.
#include "shim/stream/store_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/io/memory_files.h"

namespace parkade::shim {
namespace {

constexpr char kPrefix[] = "parkade-store-";
constexpr char kBucket[] = "bucket-";
constexpr char kState[] = "state";
constexpr char kLock[] = "lock";

struct FileName {
  char text[32];
  explicit FileName(uint32_t number) { snprintf(text, sizeof text, "%s%07u", kBucket, number); }
};

// statx: fstat became a symbol of its own in glibc 2.33, which is too new for the shim.
Result<struct statx> Look(int fd, const char* what) {
  struct statx info = {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &info) == 0) return info;
  return OsError(errno, "looking at %s", what);
}

Error NoStore(const std::string& name, const std::string& base) {
  return MakeError(Code::kNotFound, "NO_STORE", "no store %s is kept in %s", name.c_str(),
                   base.c_str());
}

}  // namespace

Result<std::unique_ptr<StoreFiles>> StoreFiles::Open(const Wanted& wanted) {
  std::unique_ptr<StoreFiles> files(new StoreFiles(kPrefix + wanted.name));
  files->keeps_ = wanted.take == Take::kKept;  // until all of it has been found
  for (const std::string& base : wanted.bases) {
    if (auto r = files->OpenDirectory(base, wanted); !r.ok()) return r.error();
  }
  const Directory& first = files->directories_[0];
  if (wanted.take == Take::kKept) {
    files->state_ = Fd(openat(first.fd.get(), kState, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!files->state_) {
      if (errno != ENOENT) return OsError(errno, "opening the state of a kept store");
      return NoStore(wanted.name, wanted.bases[0]);
    }
    for (uint32_t i = 0; i < wanted.file_bytes.size(); ++i) {
      if (auto r = files->FindFile(i, wanted.file_bytes[i]); !r.ok()) return r.error();
    }
    files->keeps_ = false;
    return files;
  }
  for (const Directory& directory : files->directories_) files->Clear(directory);
  files->state_ =
      Fd(openat(first.fd.get(), kState, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!files->state_) return OsError(errno, "making a state file in %s", wanted.bases[0].c_str());
  for (uint32_t i = 0; i < wanted.file_bytes.size(); ++i) {
    if (auto r = files->MakeFile(i, wanted.file_bytes[i]); !r.ok()) return r.error();
  }
  return files;
}

Result<void> StoreFiles::OpenDirectory(const std::string& base, const Wanted& wanted) {
  Directory directory;
  directory.base = Fd(open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.base) return OsError(errno, "opening the store's base %s", base.c_str());
  if (!wanted.in_memory_too && IsMemoryFile(directory.base.get())) {
    return MakeError(Code::kFailedPrecondition, "MEMORY_FILE_SYSTEM",
                     "%s is a file system in memory: a store there saves none", base.c_str());
  }
  const bool makes = wanted.take == Take::kFresh;
  if (makes && mkdirat(directory.base.get(), name_.c_str(), 0700) != 0 && errno != EEXIST) {
    return OsError(errno, "making a store's directory in %s", base.c_str());
  }
  directory.fd = Fd(
      openat(directory.base.get(), name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory.fd && errno == ENOENT) return NoStore(wanted.name, base);
  if (!directory.fd) return OsError(errno, "opening a store's directory in %s", base.c_str());
  auto info = Look(directory.fd.get(), "a store's directory");
  if (!info.ok()) return info.error();
  if (info->stx_uid != geteuid()) {
    return MakeError(Code::kPermissionDenied, "OTHER_USER", "%s/%s is another user's", base.c_str(),
                     name_.c_str());
  }
  if (auto r = Lock(directory, base); !r.ok()) return r.error();
  directories_.push_back(std::move(directory));
  return {};
}

Result<void> StoreFiles::Lock(Directory& directory, const std::string& base) {
  directory.lock =
      Fd(openat(directory.fd.get(), kLock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!directory.lock) return OsError(errno, "opening a store's lock in %s", base.c_str());
  struct flock range = {};
  range.l_type = F_WRLCK;
  if (fcntl(directory.lock.get(), F_OFD_SETLK, &range) != 0) {
    if (errno != EAGAIN && errno != EACCES) return OsError(errno, "locking a store");
    return MakeError(Code::kFailedPrecondition, "STORE_IN_USE",
                     "another process, or store of this one, uses %s/%s", base.c_str(),
                     name_.c_str());
  }
  auto info = Look(directory.lock.get(), "a store's lock");
  if (!info.ok()) return info.error();
  if (info->stx_nlink != 0) return {};
  // Its owner has just removed it.
  return MakeError(Code::kFailedPrecondition, "STORE_IN_USE", "%s/%s is being removed",
                   base.c_str(), name_.c_str());
}

Result<void> StoreFiles::MakeFile(uint32_t number, Bytes bytes) {
  const Directory& directory = directories_[number % directories_.size()];
  const FileName name(number);
  Fd fd(openat(directory.fd.get(), name.text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
               0600));
  if (!fd) return OsError(errno, "making %s/%s", name_.c_str(), name.text);
  // Unwritten extents read as zeros. Where they cannot be had, a full disk shows in a step.
  if (bytes != 0 && fallocate(fd.get(), 0, 0, off_t(bytes)) != 0 &&
      (errno != EOPNOTSUPP || ftruncate(fd.get(), off_t(bytes)) != 0)) {
    return OsError(errno, "%llu MiB for %s/%s", (unsigned long long)bytes >> 20, name_.c_str(),
                   name.text);
  }
  buckets_.push_back(std::move(fd));
  return {};
}

Result<void> StoreFiles::FindFile(uint32_t number, Bytes bytes) {
  const Directory& directory = directories_[number % directories_.size()];
  const FileName name(number);
  Fd fd(openat(directory.fd.get(), name.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return OsError(errno, "opening %s/%s of a kept store", name_.c_str(), name.text);
  auto info = Look(fd.get(), name.text);
  if (!info.ok()) return info.error();
  if (!S_ISREG(info->stx_mode) || info->stx_size != bytes) {
    return MakeError(Code::kFailedPrecondition, "OTHER_FILES",
                     "%s/%s has %llu bytes, and %llu are expected", name_.c_str(), name.text,
                     (unsigned long long)info->stx_size, (unsigned long long)bytes);
  }
  buckets_.push_back(std::move(fd));
  return {};
}

void StoreFiles::Clear(const Directory& directory) {
  const int fd = fcntl(directory.fd.get(), F_DUPFD_CLOEXEC, 0);
  DIR* const list = fd < 0 ? nullptr : fdopendir(fd);
  if (list == nullptr) {
    if (fd >= 0) close(fd);
    return;
  }
  rewinddir(list);  // the two share a position
  while (const dirent* entry = readdir(list)) {
    const std::string_view name = entry->d_name;
    if (name == kState || name.starts_with(kBucket)) {
      unlinkat(directory.fd.get(), entry->d_name, 0);
    }
  }
  closedir(list);
}

StoreFiles::~StoreFiles() {
  for (const Directory& directory : directories_) {
    if (!directory.lock || keeps_) continue;
    Clear(directory);
    unlinkat(directory.fd.get(), kLock, 0);
    unlinkat(directory.base.get(), name_.c_str(), AT_REMOVEDIR);
  }
}

void StoreFiles::AbandonAfterFork() {
  for (Directory& directory : directories_) directory.lock.Reset();
}

}  // namespace parkade::shim
