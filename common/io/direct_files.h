// DirectFiles: a list of open files switched to direct I/O where their file system takes it.
//
// Offsets, lengths and memory must be multiples of kDirectAlign. It reads and writes nothing
// itself.
#pragma once

#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/fd.h"
#include "common/io/disk_setting.h"
#include "common/result.h"

namespace parkade {

// The largest alignment that a file system in use asks for; one that asks for more stays buffered.
constexpr Bytes kDirectAlign = 4096;

class DirectFiles {
 public:
  DirectFiles() = default;
  // Takes over the descriptors, which are best used as `setting` says. INVALID_ARGUMENT BAD_FILE
  // when one is not a regular file.
  static Result<DirectFiles> Adopt(std::span<Fd> files, const DiskSetting& setting = {});

  const DiskSetting& setting() const { return setting_; }

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

  // False: the file goes through the page cache. True is what its file system says; PageCacheLimit
  // sees whether it holds.
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
  DiskSetting setting_;
  const char* buffered_because_ = "";
};

}  // namespace parkade
