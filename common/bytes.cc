// Reads sizes from text.
#include "common/bytes.h"

#include <cctype>
#include <charconv>

namespace parkade {
namespace {

// The power of 1024 that `unit` stands for, or -1.
int Power(std::string_view unit) {
  if (unit.empty() || unit == "b" || unit == "B") return 0;
  constexpr std::string_view kLetters = "kmgt";
  const size_t at = kLetters.find(char(tolower(static_cast<unsigned char>(unit[0]))));
  if (at == kLetters.npos) return -1;
  std::string_view rest = unit.substr(1);
  if (!rest.empty() && (rest[0] == 'i' || rest[0] == 'I')) {
    rest.remove_prefix(1);
    if (rest.empty()) return int(at) + 1;  // "Gi", as Kubernetes writes it
  }
  return rest.empty() || rest == "b" || rest == "B" ? int(at) + 1 : -1;
}

}  // namespace

Result<Bytes> ParseBytes(std::string_view text) {
  const int shown = int(text.size() < 40 ? text.size() : 40);
  auto refuse = [&](const char* why) {
    return MakeError(Code::kInvalidArgument, "BAD_SIZE", "size \"%.*s\": %s", shown, text.data(),
                     why);
  };
  Bytes n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error == std::errc::result_out_of_range) return refuse("too large");
  if (error != std::errc()) return refuse("a whole number is expected, such as 512M or 2GiB");
  const int power = Power(text.substr(size_t(end - text.data())));
  if (power < 0) return refuse("unknown unit; K, M, G and T are known");
  if (n == 0) return refuse("must be more than zero");
  if (power > 0 && n >> (64 - 10 * power) != 0) return refuse("too large");
  return n << (10 * power);
}

}  // namespace parkade
