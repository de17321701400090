// Reads in one go: the kernel renders such a file at the first read.
#include "daemon/proc_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "common/fd.h"

namespace parkade::daemon {

std::string ReadProcFile(const std::string& path) {
  constexpr size_t kMost = 64 << 10;
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!fd) return text;
  text.resize(kMost);
  size_t got = 0;
  while (got < kMost) {
    const ssize_t n = read(fd.get(), text.data() + got, kMost - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += size_t(n);
  }
  text.resize(got);
  return text;
}

}  // namespace parkade::daemon
