// Replaces control characters and broken UTF-8.
#include "daemon/printable.h"

#include <cstdint>

namespace parkade::daemon {
namespace {

// Bytes of the well-formed UTF-8 sequence that `text` starts with; 0: there is none.
size_t SequenceAt(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < n) return 0;
  uint32_t point = first & (0xffu >> (n + 1));
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    point = point << 6 | (byte(i) & 0x3fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xd800 && point < 0xe000;
  const bool control = point < 0xa0;  // C1: a terminal may obey it
  return point < kLeast[n] || point > 0x10ffff || surrogate || control ? 0 : n;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t n = SequenceAt(text);
    if (n == 0) {
      out += '?';
    } else {
      out += text.substr(0, n);
    }
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

}  // namespace parkade::daemon
