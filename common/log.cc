// Formats a line and writes it to stderr in one call.
#include "common/log.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "common/log_level.h"

namespace parkade {
namespace {

const char* log_program = "parkade";
std::atomic<LogLevel> log_least = LogLevel::kWarning;  // changes while others log: relaxed
constexpr const char* kNames[] = {"debug", "info", "warning", "error", "off"};

}  // namespace

void SetLog(const char* program, LogLevel least) {
  log_program = program;
  log_least = least;
}

void SetLogLevel(LogLevel least) { log_least.store(least, std::memory_order_relaxed); }

bool ParseLogLevel(const char* text, LogLevel* level) {
  for (int i = 0; i < 5; ++i) {
    if (strcmp(text, kNames[i]) != 0) continue;
    *level = LogLevel(i);
    return true;
  }
  return false;
}

void Log(LogLevel level, const char* format, ...) {
  if (level < log_least.load(std::memory_order_relaxed)) return;
  const int saved_errno = errno;
  char line[512];
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc;
  gmtime_r(&now.tv_sec, &utc);
  int n = snprintf(line, sizeof line,
                   "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ %s[%d] %s: ", utc.tm_year + 1900,
                   utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                   now.tv_nsec / 1'000'000, log_program, int(getpid()), kNames[int(level)]);
  va_list args;
  va_start(args, format);
  n += vsnprintf(line + n, sizeof line - size_t(n), format, args);
  va_end(args);
  if (n > int(sizeof line) - 2) n = int(sizeof line) - 2;
  line[n++] = '\n';
  // A lost log line is not worth an error path.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, size_t(n));
  errno = saved_errno;
}

}  // namespace parkade
