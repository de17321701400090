// Reads in one go: the kernel renders such a file at the first read.
#include "daemon/proc_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "common/fd.h"
#include "daemon/words.h"

namespace parkade::daemon {

std::string ReadProcFile(const std::string& path, size_t most) {
  // A pipe in the place of one of our own small files has nothing to read, and must not hold us up.
  const Fd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
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

std::optional<uint64_t> ReadLimit(pid_t pid, std::string_view name) {
  const std::string text = ReadProcFile(Cat("/proc/", pid, "/limits"));
  for (std::string_view line : Split(text, "\n")) {
    if (!line.starts_with(name)) continue;
    const auto words = Split(line.substr(name.size()), " ");
    return words.empty() ? std::nullopt : ReadNumber<uint64_t>(words[0]);
  }
  return std::nullopt;
}

}  // namespace parkade::daemon
