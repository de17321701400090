// Maps errno to the kinds of failure.
#include "common/result.h"

#include <cerrno>

namespace parkade {
namespace {

struct Kind {
  int os_errno;
  Code code;
  const char* reason;
};

constexpr Kind kKinds[] = {
    {ENOSPC, Code::kResourceExhausted, "DISK_SPACE"},
    {EDQUOT, Code::kResourceExhausted, "DISK_QUOTA"},
    {EFBIG, Code::kResourceExhausted, "FILE_SIZE_LIMIT"},
    {ENOMEM, Code::kResourceExhausted, "HOST_MEMORY"},
    {EMFILE, Code::kResourceExhausted, "OPEN_FILES"},
    {ENFILE, Code::kResourceExhausted, "OPEN_FILES"},
    {EACCES, Code::kPermissionDenied, "NO_ACCESS"},
    {EPERM, Code::kPermissionDenied, "NO_ACCESS"},
    {EROFS, Code::kFailedPrecondition, "READ_ONLY"},
    {ENOENT, Code::kNotFound, "NO_FILE"},
    {ENOTDIR, Code::kNotFound, "NO_FILE"},
    {ETIMEDOUT, Code::kDeadlineExceeded, "TIMED_OUT"},
    {ECONNREFUSED, Code::kUnavailable, "NO_PEER"},
    {ECONNRESET, Code::kUnavailable, "NO_PEER"},
    {EPIPE, Code::kUnavailable, "NO_PEER"},
};

}  // namespace

Error OsError(int os_errno, const char* format, ...) {
  Error e;
  e.reason = "OS_ERROR";
  for (const Kind& kind : kKinds) {
    if (kind.os_errno != os_errno) continue;
    e.code = kind.code;
    e.reason = kind.reason;
  }
  e.os_errno = os_errno;
  va_list args;
  va_start(args, format);
  vsnprintf(e.what, sizeof e.what, format, args);
  va_end(args);
  return e;
}

}  // namespace parkade
