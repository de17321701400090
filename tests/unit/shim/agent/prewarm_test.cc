// Prewarm: what is asked for, and when.
#include "shim/agent/prewarm.h"

#include <catch2/catch.hpp>

namespace parkade::shim {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TEST_CASE("a size is asked for at once, and once for each daemon") {
  Prewarm prewarm(3_GiB);
  CHECK(prewarm.Due(0, kSecond) == 3_GiB);
  CHECK(prewarm.Due(8_GiB, 9 * kSecond) == 0);
  prewarm.Forget();
  CHECK(prewarm.Due(8_GiB, 9 * kSecond) == 3_GiB);
}

TEST_CASE("without a setting nothing is asked for") {
  Prewarm prewarm(0);
  CHECK(prewarm.Due(8_GiB, kSecond) == 0);
  CHECK(prewarm.Due(8_GiB, 9 * kSecond) == 0);
}

TEST_CASE("auto asks for what is allocated once that has lasted for a second, and for more later") {
  Prewarm prewarm(Prewarm::kAuto);
  CHECK(prewarm.Due(0, 5 * kSecond) == 0);
  CHECK(prewarm.Due(1_GiB, 6 * kSecond) == 0);
  CHECK(prewarm.Due(2_GiB, 7 * kSecond) == 0);
  CHECK(prewarm.Due(2_GiB, 8 * kSecond - 1) == 0);
  CHECK(prewarm.Due(2_GiB, 8 * kSecond) == 2_GiB);
  CHECK(prewarm.Due(2_GiB, 20 * kSecond) == 0);
  CHECK(prewarm.Due(1_GiB, 21 * kSecond) == 0);
  CHECK(prewarm.Due(1_GiB, 30 * kSecond) == 0);  // the pool holds more already
  CHECK(prewarm.Due(3_GiB, 31 * kSecond) == 0);
  CHECK(prewarm.Due(3_GiB, 32 * kSecond) == 3_GiB);
}

}  // namespace
}  // namespace parkade::shim
