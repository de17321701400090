// FileStamp: by which one sees whether a file is still what it was when it was last written to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace parkade::shim {

struct FileStamp {
  uint64_t device;
  uint64_t inode;
  int64_t bytes;
  int64_t written_s;  // mtime
  int64_t written_ns;
  bool operator==(const FileStamp&) const = default;
};

// Of each file; empty when one of them cannot be asked.
std::vector<FileStamp> StampsOf(std::span<const int> fds);
// Whether `now` begins with the files of `before`, whatever was written to them since.
bool AreSameFiles(std::span<const int> before, std::span<const int> now);

}  // namespace parkade::shim
