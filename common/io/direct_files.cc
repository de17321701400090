// Asks the kernel what it takes, by statx, by fcntl and by trying.
#include "common/io/direct_files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace parkade {

// Null when `fd` now is direct, else why not.
const char* DirectFiles::MakeDirect(int fd) {
#ifdef STATX_DIOALIGN
  struct statx info = {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
      (info.stx_mask & STATX_DIOALIGN) != 0) {
    if (info.stx_dio_offset_align == 0) return "the file system has no direct I/O";
    if (info.stx_dio_offset_align > kDirectAlign || info.stx_dio_mem_align > kDirectAlign) {
      return "the file system wants direct I/O aligned to more than 4096 bytes";
    }
  }
#endif
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) {
    return "the file system refuses O_DIRECT";
  }
  // Some file systems take the flag and refuse the transfer.
  alignas(kDirectAlign) char block[kDirectAlign];
  if (pread(fd, block, sizeof block, 0) < 0 && errno == EINVAL) {
    fcntl(fd, F_SETFL, flags);
    return "the file system takes O_DIRECT and refuses direct reads";
  }
  return nullptr;
}

Result<DirectFiles> DirectFiles::Adopt(std::span<Fd> files) {
  DirectFiles adopted;
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) limit.rlim_cur = RLIM_INFINITY;
  for (Fd& fd : files) {
    // statx: fstat became a symbol of its own in glibc 2.33, which is too new for the shim.
    struct statx info = {};
    if (statx(fd.get(), "", AT_EMPTY_PATH, STATX_TYPE | STATX_SIZE, &info) != 0) {
      return OsError(errno, "looking at a backup file");
    }
    if (!S_ISREG(info.stx_mode)) {
      return MakeError(Code::kInvalidArgument, "BAD_FILE", "a backup must be a regular file");
    }
    File file;
    file.capacity = Bytes(info.stx_size) / kDirectAlign * kDirectAlign;
    file.writable = std::min(file.capacity, Bytes(limit.rlim_cur) / kDirectAlign * kDirectAlign);
    const char* refusal = MakeDirect(fd.get());
    file.direct = refusal == nullptr;
    if (refusal != nullptr) adopted.buffered_because_ = refusal;
    file.fd = std::move(fd);
    adopted.fds_.push_back(file.fd.get());
    adopted.files_.push_back(std::move(file));
  }
  return adopted;
}

Bytes DirectFiles::capacity() const {
  Bytes sum = 0;
  for (const File& file : files_) sum += file.capacity;
  return sum;
}

Bytes DirectFiles::writable() const {
  Bytes sum = 0;
  for (const File& file : files_) sum += file.writable;
  return sum;
}

Result<void> PageCacheLimit::DropOldest() {
  const Part part = dirty_.front();
  dirty_.pop_front();
  dirty_bytes_ -= part.bytes;
  const int result = sync_file_range(
      part.fd, off64_t(part.offset), off64_t(part.bytes),
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  // ENOSYS and EINVAL: a kernel or file system without it; its own write-back then has to do.
  if (result != 0 && errno != ENOSYS && errno != EINVAL) {
    return OsError(errno, "writing %llu bytes at %llu back", (unsigned long long)part.bytes,
                   (unsigned long long)part.offset);
  }
  posix_fadvise(part.fd, off_t(part.offset), off_t(part.bytes), POSIX_FADV_DONTNEED);
  return {};
}

Result<void> PageCacheLimit::Wrote(uint32_t file, uint64_t offset, Bytes bytes) {
  if (files_.direct(file)) return {};
  const int fd = files_.fds()[file];
  sync_file_range(fd, off64_t(offset), off64_t(bytes), SYNC_FILE_RANGE_WRITE);
  dirty_.push_back({fd, offset, bytes});
  dirty_bytes_ += bytes;
  while (dirty_bytes_ > kWindow) {
    if (auto r = DropOldest(); !r.ok()) return r;
  }
  return {};
}

Result<void> PageCacheLimit::Flush() {
  while (!dirty_.empty()) {
    if (auto r = DropOldest(); !r.ok()) return r;
  }
  return {};
}

void PageCacheLimit::HasRead(uint32_t file, uint64_t offset, Bytes bytes) {
  if (files_.direct(file)) return;
  posix_fadvise(files_.fds()[file], off_t(offset), off_t(bytes), POSIX_FADV_DONTNEED);
}

}  // namespace parkade
