// Reads a file to its end, in as many pieces as it takes.
#include "daemon/proc_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/fd.h"
#include "daemon/words.h"

namespace parkade::daemon {

std::string ReadProcFile(const std::string& path, size_t most) {
  // A pipe in the place of one of our own small files has nothing to read, and must not hold us up.
  const Fd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string text;
  if (!fd) return text;
  // One read has all of a file of usual size, as the kernel renders it; the table of mounts may
  // have megabytes, which are not to be had and filled for every few lines.
  constexpr size_t kUsual = 64 << 10;
  size_t got = 0;
  for (bool more = true; more && got < most;) {
    if (got == text.size()) text.resize(std::min(most, std::max(kUsual, 2 * got)));
    const ssize_t n = read(fd.get(), text.data() + got, text.size() - got);
    if (n < 0 && errno == EINTR) continue;
    more = n > 0;
    if (more) got += size_t(n);
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
