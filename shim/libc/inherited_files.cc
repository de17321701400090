// Reads /proc/self/fd with bare system calls.
#include "shim/libc/inherited_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace parkade::shim {
namespace {

struct KernelEntry {  // getdents64(2)
  uint64_t inode;
  int64_t next;
  unsigned short bytes;
  unsigned char type;
  char name[];
};

int Number(const char* digits) {
  int number = 0;
  for (; *digits >= '0' && *digits <= '9'; ++digits) number = number * 10 + (*digits - '0');
  return *digits == '\0' ? number : -1;
}

bool Names(int directory, const char* entry, const char* part) {
  char path[PATH_MAX];
  const ssize_t length = readlinkat(directory, entry, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  return strstr(path, part) != nullptr;
}

}  // namespace

void CloseInheritedFiles(const char* part) {
  const int directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  alignas(KernelEntry) char buffer[4096];
  for (;;) {
    const long filled = syscall(SYS_getdents64, directory, buffer, sizeof buffer);
    if (filled <= 0) break;
    for (long at = 0; at < filled;) {
      const auto* entry = reinterpret_cast<const KernelEntry*>(buffer + at);
      at += entry->bytes;
      const int number = entry->name[0] == '.' ? -1 : Number(entry->name);
      if (number >= 0 && number != directory && Names(directory, entry->name, part)) close(number);
    }
  }
  close(directory);
}

}  // namespace parkade::shim
