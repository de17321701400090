// Reads in one go: the kernel renders such a file at the first read.
#include "daemon/proc_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "common/fd.h"

namespace parkade::daemon {

std::string ReadProcFile(const std::string& path, size_t most) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!fd) return text;
  text.resize(most);
  size_t got = 0;
  while (got < most) {
    const ssize_t n = read(fd.get(), text.data() + got, most - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += size_t(n);
  }
  text.resize(got);
  return text;
}

}  // namespace parkade::daemon
