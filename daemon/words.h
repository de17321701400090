// Joins, splits and reads text. Debian's abseil has a string_view of its own that does not convert
// from the standard one, so its string functions do not fit here.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace parkade::daemon {

inline void AppendWord(std::string& to, std::string_view word) { to += word; }
template <typename T>
requires std::integral<T>
void AppendWord(std::string& to, T number) { to += std::to_string(number); }

// The texts and numbers, one after the other.
template <typename... Words>
std::string Cat(const Words&... words) {
  std::string all;
  (AppendWord(all, words), ...);
  return all;
}

// The parts between any of `separators`; empty ones are left out. They point into `text`.
inline std::vector<std::string_view> Split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t at = std::min(text.find_first_of(separators), text.size());
    if (at > 0) parts.push_back(text.substr(0, at));
    text.remove_prefix(std::min(at + 1, text.size()));
  }
  return parts;
}

template <typename List>
std::string Join(const List& list, std::string_view between) {
  std::string all;
  for (const auto& item : list) {
    if (!all.empty()) all += between;
    AppendWord(all, item);
  }
  return all;
}

// A whole decimal number, with nothing behind it.
template <typename T>
std::optional<T> ReadNumber(std::string_view text) {
  T number;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

// A size for people: "17 bytes", "620.0 MiB". Programs find the exact one in the metadata.
inline std::string InUnits(uint64_t bytes) {
  if (bytes < 1024) return Cat(bytes, " bytes");
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  uint64_t tenths = bytes / 1024 * 10 + bytes % 1024 * 10 / 1024;
  for (; tenths >= 10240 && unit + 1 < std::size(kUnits); ++unit) tenths /= 1024;
  return Cat(tenths / 10, ".", tenths % 10, " ", kUnits[unit]);
}

}  // namespace parkade::daemon
