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

Result<DirectFiles> DirectFiles::Adopt(std::span<Fd> files, const DiskSetting& setting) {
  DirectFiles adopted;
  adopted.setting_ = setting;
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

}  // namespace parkade
