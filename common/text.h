// Fixed, NUL-padded text fields as they stand in wire messages and shared memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

namespace parkade {

// Copies `text` into `field`, cut to leave one NUL, the rest zeroed.
template <size_t N>
void CopyText(char (&field)[N], std::string_view text) {
  const size_t n = text.size() < N - 1 ? text.size() : N - 1;
  memcpy(field, text.data(), n);
  memset(field + n, 0, N - n);
}

// The text in `field`, whether or not a NUL ends it (the other side may have written anything).
template <size_t N>
std::string_view ReadText(const char (&field)[N]) {
  return {field, strnlen(field, N)};
}

}  // namespace parkade
