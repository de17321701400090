// Asks the file system.
#include "shim/pause/file_stamp.h"

#include <sys/stat.h>

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

}  // namespace parkade::shim
