// Asks the kernel what it caches, and has it drop what has passed.
#include "common/io/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace parkade {
namespace {

// Linux 6.5; the number is the same on every architecture, and older headers have neither.
constexpr long kCachestat = 451;
struct CachestatRange {
  uint64_t offset, bytes;
};
struct Cachestat {
  uint64_t cached, dirty, writeback, evicted, recently_evicted;  // pages
};

// A write that goes round the page cache leaves none of its pages there; two, in case somebody else
// was just reading the file.
constexpr uint32_t kLooks = 2;

std::optional<Bytes> ByMincore(int fd, uint64_t offset, Bytes bytes, Bytes page) {
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, off_t(offset));
  if (mapped == MAP_FAILED) return std::nullopt;
  std::vector<unsigned char> resident(bytes / page);
  const int result = mincore(mapped, bytes, resident.data());
  munmap(mapped, bytes);
  if (result != 0) return std::nullopt;
  return page * Bytes(std::count_if(resident.begin(), resident.end(),
                                    [](unsigned char flags) { return (flags & 1) != 0; }));
}

}  // namespace

std::optional<Bytes> CachedBytes(int fd, uint64_t offset, Bytes bytes) {
  const Bytes page = Bytes(sysconf(_SC_PAGESIZE));
  const CachestatRange range{offset, bytes};
  Cachestat found{};
  if (syscall(kCachestat, fd, &range, &found, 0) == 0) return found.cached * page;
  const uint64_t begin = offset / page * page;
  return ByMincore(fd, begin, RoundUp(offset + bytes - begin, page), page);
}

PageCacheLimit::PageCacheLimit(const DirectFiles& files, Bytes window)
    : files_(files), window_(window), looks_left_(files.size(), kLooks) {
  for (uint32_t i = 0; i < files.size(); ++i) {
    caches_.push_back(false);
    if (!files.direct(i)) BeginLimiting(i);
  }
}

void PageCacheLimit::BeginLimiting(uint32_t file) {
  caches_[file] = true;
  // Read-ahead would bring in what nobody drops, in units that cross the borders of requests.
  posix_fadvise(files_.fds()[file], 0, 0, POSIX_FADV_RANDOM);
}

bool PageCacheLimit::believes() const {
  for (size_t i = 0; i < caches_.size(); ++i) {
    if (!caches_[i] && looks_left_[i] != 0 && files_.writable(i) != 0) return false;
  }
  return true;
}

bool PageCacheLimit::Caches(uint32_t file, uint64_t offset, Bytes bytes) {
  if (caches_[file] || looks_left_[file] == 0 || bytes == 0) return caches_[file];
  --looks_left_[file];
  if (CachedBytes(files_.fds()[file], offset, bytes).value_or(0) != 0) {
    found_cached_ = true;
    BeginLimiting(file);
  }
  return caches_[file];
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
  if (!Caches(file, offset, bytes)) return {};
  const int fd = files_.fds()[file];
  sync_file_range(fd, off64_t(offset), off64_t(bytes), SYNC_FILE_RANGE_WRITE);
  dirty_.push_back({fd, offset, bytes});
  dirty_bytes_ += bytes;
  while (dirty_bytes_ > window_) {
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

void PageCacheLimit::WillRead(uint32_t file, uint64_t offset, Bytes bytes) {
  if (caches_[file] || looks_left_[file] == 0) return;
  posix_fadvise(files_.fds()[file], off_t(offset), off_t(bytes), POSIX_FADV_DONTNEED);
}

void PageCacheLimit::HasRead(uint32_t file, uint64_t offset, Bytes bytes) {
  if (!Caches(file, offset, bytes)) return;
  posix_fadvise(files_.fds()[file], off_t(offset), off_t(bytes), POSIX_FADV_DONTNEED);
}

}  // namespace parkade
