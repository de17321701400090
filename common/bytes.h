// Sizes in bytes: literals, rounding and reading text such as "256M" or "2GiB".
#pragma once

#include <cstdint>
#include <string_view>

#include "common/result.h"

namespace parkade {

using Bytes = uint64_t;

constexpr Bytes operator""_KiB(unsigned long long n) { return n << 10; }
constexpr Bytes operator""_MiB(unsigned long long n) { return n << 20; }
constexpr Bytes operator""_GiB(unsigned long long n) { return n << 30; }

// a less b, 0 at least.
constexpr Bytes Less(Bytes a, Bytes b) { return a > b ? a - b : 0; }

constexpr Bytes RoundUp(Bytes n, Bytes step) { return (n + step - 1) / step * step; }

// Reads a positive whole number with an optional unit: K, M, G, T, each also as KiB or KB, in any
// case, always powers of 1024. Refuses zero, signs, fractions and overflow with INVALID_ARGUMENT.
Result<Bytes> ParseBytes(std::string_view text);

}  // namespace parkade
