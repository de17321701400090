// DirectFiles: a list of open files switched to direct I/O where their file system takes it.
//
// Offsets, lengths and memory must be multiples of kDirectAlign. It reads and writes nothing
// itself.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/fd.h"
#include "common/result.h"

namespace parkade {

// The largest alignment that a file system in use asks for; one that asks for more stays buffered.
constexpr Bytes kDirectAlign = 4096;

class DirectFiles {
 public:
  DirectFiles() = default;
  // Takes over the descriptors. INVALID_ARGUMENT BAD_FILE when one is not a regular file.
  static Result<DirectFiles> Adopt(std::span<Fd> files);

  std::span<const int> fds() const { return fds_; }
  size_t size() const { return files_.size(); }
  // Size of a file when it was adopted: what was preallocated for it.
  Bytes capacity(size_t file) const { return files_[file].capacity; }
  Bytes capacity() const;
  // Of it, what RLIMIT_FSIZE let the process write then: past that every write fails, also to space
  // that is preallocated, and where its signal is not blocked it ends the process.
  Bytes writable(size_t file) const { return files_[file].writable; }
  Bytes writable() const;
  // Why some file is buffered, for people; empty when all are direct.
  const char* buffered_because() const { return buffered_because_; }

  // False: the file goes through the page cache (PageCacheLimit).
  bool direct(size_t file) const { return files_[file].direct; }

 private:
  struct File {
    Fd fd;
    Bytes capacity = 0;
    Bytes writable = 0;
    bool direct = false;
  };

  static const char* MakeDirect(int fd);

  std::vector<File> files_;
  std::vector<int> fds_;
  const char* buffered_because_ = "";
};

// PageCacheLimit: keeps what one thread moves to and from buffered files out of the page cache, but
// for kWindow bytes. Does nothing for direct files.
class PageCacheLimit {
 public:
  explicit PageCacheLimit(const DirectFiles& files) : files_(files) {}  // which outlives it

  // After a write has completed: starts its write-back and drops pages some way behind. May block
  // on the disk, and brings the disk's late errors to light.
  Result<void> Wrote(uint32_t file, uint64_t offset, Bytes bytes);
  // After the last write: what is left in the window.
  Result<void> Flush();
  // After a read has completed.
  void HasRead(uint32_t file, uint64_t offset, Bytes bytes);

 private:
  static constexpr Bytes kWindow = 32_MiB;

  struct Part {
    int fd;
    uint64_t offset;
    Bytes bytes;
  };
  Result<void> DropOldest();

  const DirectFiles& files_;
  std::deque<Part> dirty_;  // write-back started, not yet dropped
  Bytes dirty_bytes_ = 0;
};

}  // namespace parkade
