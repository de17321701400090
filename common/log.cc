// Formats a line and writes it to stderr in one call.
#include "common/log.h"

#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace parkade {
namespace {

const char* log_program = "parkade";
LogLevel log_least = LogLevel::kWarning;
LogFormat log_format = LogFormat::kText;
constexpr const char* kNames[] = {"debug", "info", "warning", "error", "off"};
constexpr const char* kFormats[] = {"text", "json"};
constexpr size_t kMostMessage = 420;

struct Line {
  char text[6 * kMostMessage + 256];  // every character escaped, and what stands before
  size_t end = 0;

  [[gnu::format(printf, 2, 3)]] void Add(const char* format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text + end, sizeof text - end, format, args);
    va_end(args);
    end += std::min(size_t(std::max(n, 0)), sizeof text - end - 1);
  }
  // As the inside of a JSON string; what is no ASCII passes as it is.
  void AddEscaped(const char* message) {
    for (const char* at = message; *at != '\0'; ++at) {
      const auto c = static_cast<unsigned char>(*at);
      if (c == '"' || c == '\\') {
        Add("\\%c", c);
      } else if (c < 0x20) {
        Add("\\u%04x", c);
      } else {
        Add("%c", c);
      }
    }
  }
};

void Write(LogLevel level, const char* message, const char* members) {
  const int saved_errno = errno;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc;
  gmtime_r(&now.tv_sec, &utc);
  char time[80];
  snprintf(time, sizeof time, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", utc.tm_year + 1900,
           utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
           now.tv_nsec / 1'000'000);
  Line line;
  const bool json = log_format == LogFormat::kJson;
  if (json) {
    line.Add(R"({"time": "%s", "program": "%s", "pid": %d, "level": "%s", "message": ")", time,
             log_program, int(getpid()), kNames[int(level)]);
    line.AddEscaped(message);
    line.Add("\"%s", members[0] == '\0' ? "" : ", ");
  } else {
    line.Add("%s %s[%d] %s: %s", time, log_program, int(getpid()), kNames[int(level)], message);
    members = "";
  }
  const char* ending = json ? "}\n" : "\n";
  const iovec parts[] = {{line.text, line.end},
                         {const_cast<char*>(members), strlen(members)},
                         {const_cast<char*>(ending), strlen(ending)}};
  // A lost log line is not worth an error path.
  [[maybe_unused]] const ssize_t written = writev(STDERR_FILENO, parts, 3);
  errno = saved_errno;
}

template <size_t n, typename T>
bool Find(const char* const (&names)[n], const char* text, T* found) {
  for (size_t i = 0; i < n; ++i) {
    if (strcmp(text, names[i]) != 0) continue;
    *found = T(i);
    return true;
  }
  return false;
}

}  // namespace

void SetLog(const char* program, LogLevel least, LogFormat format) {
  log_program = program;
  log_least = least;
  log_format = format;
}

bool ParseLogLevel(const char* text, LogLevel* level) { return Find(kNames, text, level); }
bool ParseLogFormat(const char* text, LogFormat* format) { return Find(kFormats, text, format); }

void Log(LogLevel level, const char* format, ...) {
  if (level < log_least) return;
  const int saved_errno = errno;
  char message[kMostMessage];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  errno = saved_errno;
  Write(level, message, "");
}

void LogWith(LogLevel level, const char* message, const char* members) {
  if (level >= log_least) Write(level, message, members);
}

}  // namespace parkade
