// Log lines: one write to stderr each, formatted in a fixed buffer, no allocation.
#pragma once

namespace parkade {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// `program` stands first in every line ("parkaded"); static storage. Not thread-safe: call before
// threads start.
void SetLog(const char* program, LogLevel least);

// Reads "debug", "info", "warning", "error" or "off"; false when it is none of them.
bool ParseLogLevel(const char* text, LogLevel* level);

// Any thread; keeps errno. Lines over 500 bytes are cut.
[[gnu::format(printf, 2, 3)]] void Log(LogLevel level, const char* format, ...);

}  // namespace parkade
