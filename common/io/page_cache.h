// The page cache: how much of a file is in it, and PageCacheLimit, which keeps out of it what one
// thread moves to and from files.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "common/io/direct_files.h"

namespace parkade {

// Bytes of the pages of [offset, offset + bytes) that are in the page cache. Empty where the kernel
// does not say: neither by cachestat nor by mincore.
std::optional<Bytes> CachedBytes(int fd, uint64_t offset, Bytes bytes);

// Leaves nothing of what has passed through it there but for a window, and does nothing where files
// are direct. That a file system has taken O_DIRECT is not believed (tmpfs and btrfs take it and
// cache): the first transfers of each file are looked up in the page cache.
class PageCacheLimit {
 public:
  // At most `window` bytes of writes stay. `files` outlives it.
  explicit PageCacheLimit(const DirectFiles& files, Bytes window = 32_MiB);

  // After a write has completed: starts its write-back and drops pages some way behind. May block
  // on the disk, and brings the disk's late errors to light.
  Result<void> Wrote(uint32_t file, uint64_t offset, Bytes bytes);
  // After the last write: what is left in the window.
  Result<void> Flush();
  // Before a read begins: drops what somebody else has read, so that a look afterwards sees the
  // read's own pages.
  void WillRead(uint32_t file, uint64_t offset, Bytes bytes);
  // After a read has completed.
  void HasRead(uint32_t file, uint64_t offset, Bytes bytes);

  // A file that should be direct was found in the page cache.
  bool found_cached() const { return found_cached_; }
  // Every file that is not known to be cached has been looked at often enough to be believed.
  bool believes() const;

 private:
  struct Part {
    int fd;
    uint64_t offset;
    Bytes bytes;
  };
  void BeginLimiting(uint32_t file);
  bool Caches(uint32_t file, uint64_t offset, Bytes bytes);
  Result<void> DropOldest();

  const DirectFiles& files_;
  const Bytes window_;
  std::vector<uint32_t> looks_left_;  // by file; of one that is cached it does not matter
  std::vector<bool> caches_;          // by file
  bool found_cached_ = false;
  std::deque<Part> dirty_;  // write-back started, not yet dropped
  Bytes dirty_bytes_ = 0;
};

}  // namespace parkade
