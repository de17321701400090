// Reads this process's identity from /proc.
#include "shim/agent/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "common/fd.h"
#include "common/text.h"

namespace parkade::shim {
namespace {

// Reads up to `size` - 1 bytes of `path` and ends them with NUL.
Result<void> ReadFile(const char* path, char* text, size_t size) {
  const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return OsError(errno, "open %s", path);
  const ssize_t n = read(fd.get(), text, size - 1);
  if (n < 0) return OsError(errno, "read %s", path);
  text[n] = '\0';
  return {};
}

// Field 22; the command in field 2 may hold blanks and parentheses, so count from the last ')'.
Result<uint64_t> StartTicks() {
  char stat[1024];
  if (auto r = ReadFile("/proc/self/stat", stat, sizeof stat); !r.ok()) return r.error();
  const char* at = strrchr(stat, ')');
  for (int field = 2; at != nullptr && field < 22; ++field) {
    at = strchr(at + 1, ' ');
  }
  if (at == nullptr) return MakeError(Code::kInternal, "PROC", "/proc/self/stat is cut short");
  return uint64_t(strtoull(at + 1, nullptr, 10));
}

}  // namespace

Result<Identity> ReadIdentity() {
  Identity id{};
  id.pid = getpid();
  const auto ticks = StartTicks();
  if (!ticks.ok()) return ticks.error();
  id.start_ticks = *ticks;
  struct stat ns;
  if (stat("/proc/self/ns/pid", &ns) != 0) return OsError(errno, "stat /proc/self/ns/pid");
  id.pid_namespace = ns.st_ino;
  char boot[64];
  if (auto r = ReadFile("/proc/sys/kernel/random/boot_id", boot, sizeof boot); !r.ok()) {
    return r.error();
  }
  CopyText(id.boot_id, std::string_view(boot, strcspn(boot, "\n")));
  return id;
}

}  // namespace parkade::shim
