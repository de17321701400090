// pread and pwrite until all is done.
#include "common/store/file_bytes.h"

#include <unistd.h>

#include <cerrno>

namespace parkade::store {

Result<void> ReadAt(int fd, void* memory, Bytes bytes, Bytes offset, const char* name) {
  for (Bytes done = 0; done < bytes;) {
    const ssize_t n =
        pread(fd, static_cast<char*>(memory) + done, bytes - done, off_t(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return OsError(errno, "%s: read of %llu bytes at %llu", name,
                     (unsigned long long)(bytes - done), (unsigned long long)(offset + done));
    }
    if (n == 0) {
      return MakeError(Code::kDataLoss, "SHORT_FILE",
                       "%s: ends at %llu; %llu bytes at %llu were expected", name,
                       (unsigned long long)(offset + done), (unsigned long long)bytes,
                       (unsigned long long)offset);
    }
    done += Bytes(n);
  }
  return {};
}

Result<void> WriteAt(int fd, const void* memory, Bytes bytes, Bytes offset, const char* name) {
  for (Bytes done = 0; done < bytes;) {
    const ssize_t n =
        pwrite(fd, static_cast<const char*>(memory) + done, bytes - done, off_t(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return OsError(n < 0 ? errno : ENOSPC, "%s: write of %llu bytes at %llu", name,
                     (unsigned long long)(bytes - done), (unsigned long long)(offset + done));
    }
    done += Bytes(n);
  }
  return {};
}

}  // namespace parkade::store
