// Log lines: one write to stderr each, formatted in a fixed buffer, no allocation.
#pragma once

namespace parkade {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

enum class LogFormat {
  kText,  // "TIME PROGRAM[PID] LEVEL: message"
  kJson,  // {"time": ..., "program": ..., "pid": ..., "level": ..., "message": ...}
};

// `program` stands first in every line ("parkaded"); static storage. Not thread-safe: call before
// threads start.
void SetLog(const char* program, LogLevel least, LogFormat format = LogFormat::kText);

// Reads "debug", "info", "warning", "error" or "off"; false when it is none of them.
bool ParseLogLevel(const char* text, LogLevel* level);
// Reads "text" or "json"; false when it is neither.
bool ParseLogFormat(const char* text, LogFormat* format);

// Any thread; keeps errno. Messages over some 400 bytes are cut.
[[gnu::format(printf, 2, 3)]] void Log(LogLevel level, const char* format, ...);
// The same for a line that programs read as well: `members`, as `"name": value, ...` of JSON, are
// part of a JSON line, which holds them whole, and no part of one of text.
void LogWith(LogLevel level, const char* message, const char* members);

}  // namespace parkade
