// DirectFiles: a list of open files switched to direct I/O where their file system takes it, and
// kept out of the page cache where it does not.
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
  // Why some file is buffered, for people; empty when all are direct.
  const char* buffered_because() const { return buffered_because_; }

  // After a write, or a read, has completed. For a buffered file this starts write-back and drops
  // pages some way behind, so that at most kWindow a file stays in the page cache; it may block on
  // the disk, and brings the disk's late errors to light.
  Result<void> Wrote(uint32_t file, uint64_t offset, Bytes bytes);
  void HasRead(uint32_t file, uint64_t offset, Bytes bytes);
  // After the last write: what is left in the window.
  Result<void> Flush();

 private:
  static constexpr Bytes kWindow = 32_MiB;

  struct Part {
    uint64_t offset;
    Bytes bytes;
  };
  struct File {
    Fd fd;
    Bytes capacity = 0;
    bool direct = false;
    std::deque<Part> dirty;  // buffered only: write-back started, not yet dropped
    Bytes dirty_bytes = 0;
  };

  static const char* MakeDirect(int fd);
  Result<void> DropOldest(File& file);

  std::vector<File> files_;
  std::vector<int> fds_;
  const char* buffered_because_ = "";
};

}  // namespace parkade
