// Asks the file system.
#include "shim/pause/file_stamp.h"

#include <sys/stat.h>

#include <algorithm>

namespace parkade::shim {

std::vector<FileStamp> StampsOf(std::span<const int> fds) {
  std::vector<FileStamp> stamps;
  for (const int fd : fds) {
    struct stat s;
    if (fstat(fd, &s) != 0) return {};
    stamps.push_back({s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec});
  }
  return stamps;
}

bool AreSameFiles(std::span<const int> before, std::span<const int> now) {
  if (now.size() < before.size()) return false;
  const auto was = StampsOf(before), is = StampsOf(now);
  return was.size() == before.size() && is.size() == now.size() &&
         std::equal(was.begin(), was.end(), is.begin(), [](const auto& a, const auto& b) {
           return a.device == b.device && a.inode == b.inode;
         });
}

}  // namespace parkade::shim
