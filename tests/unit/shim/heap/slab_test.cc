// Division of a slab: fit, alignment, coalescing.
#include "shim/heap/slab.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

namespace parkade::shim {
namespace {

TEST_CASE("a size belongs to the first class that takes it") {
  CHECK(SizeClassFor(1) == &kSizeClasses[0]);
  CHECK(SizeClassFor(1_MiB) == &kSizeClasses[0]);
  CHECK(SizeClassFor(1_MiB + 1) == &kSizeClasses[1]);
  CHECK(SizeClassFor(32_MiB) == &kSizeClasses[1]);
  CHECK(SizeClassFor(32_MiB + 1) == nullptr);
}

TEST_CASE("a request takes the smallest free part that holds it") {
  Slab slab(2_MiB, kSizeClasses[0]);
  const Bytes a = *slab.Take(512_KiB), b = *slab.Take(64_KiB), c = *slab.Take(512_KiB);
  const Bytes d = *slab.Take(16_KiB), e = *slab.Take(512_KiB);
  slab.Give(b, 64_KiB);
  slab.Give(d, 16_KiB);
  CHECK(*slab.Take(10_KiB) == d);
  CHECK(*slab.Take(50_KiB) == b);
  for (Bytes offset : {a, c, e}) CHECK(offset % 512 == 0);
}

TEST_CASE("free neighbours become one part on either side") {
  Slab slab(2_MiB, kSizeClasses[0]);
  const Bytes a = *slab.Take(700_KiB), b = *slab.Take(700_KiB), c = *slab.Take(648_KiB);
  CHECK(slab.largest_free() == 0);
  CHECK_FALSE(slab.Take(1));
  slab.Give(a, 700_KiB);
  slab.Give(c, 648_KiB);
  CHECK(slab.largest_free() == 700_KiB);
  slab.Give(b, 700_KiB);
  CHECK(slab.empty());
}

TEST_CASE("blocks of a mixed load never overlap and all come back") {
  for (const SizeClass& size_class : kSizeClasses) {
    Slab slab(size_class.first_slab, size_class);
    std::mt19937 random(7);
    std::map<Bytes, Bytes> taken;
    size_t refused = 0;
    for (int i = 0; i < 20'000; ++i) {
      const Bytes bytes = 1 + random() % size_class.largest / (1 + random() % 64);
      if (const auto offset = slab.Take(bytes)) {
        const auto next = taken.lower_bound(*offset);
        REQUIRE(*offset % size_class.step == 0);
        REQUIRE(*offset + bytes <= slab.bytes());
        REQUIRE((next == taken.end() || *offset + bytes <= next->first));
        REQUIRE(
            (next == taken.begin() || std::prev(next)->first + std::prev(next)->second <= *offset));
        taken[*offset] = bytes;
      } else {
        ++refused;
        REQUIRE(slab.largest_free() < bytes);
      }
      if (random() % 2 == 0 && !taken.empty()) {
        const auto it = std::next(taken.begin(), random() % taken.size());
        slab.Give(it->first, it->second);
        taken.erase(it);
      }
    }
    CHECK(refused > 0);
    for (const auto& [offset, bytes] : taken) slab.Give(offset, bytes);
    CHECK(slab.empty());
    CHECK(slab.Take(slab.bytes()) == 0);
  }
}

}  // namespace
}  // namespace parkade::shim
