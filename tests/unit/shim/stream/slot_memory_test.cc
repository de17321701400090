// A budget of device memory decides slots and buckets, and one that is too small is told what is
// not.
#include "shim/stream/slot_memory.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>

namespace parkade::shim {
namespace {

using store::Encoding;

const std::vector<store::Segment> kFp32 = {
    {"main", Encoding::kFp32}, {"exp_avg", Encoding::kFp32}, {"exp_avg_sq", Encoding::kFp32}};

TEST_CASE("slots and buckets keep the budget and use it") {
  const uint64_t numel = uint64_t(20) << 30;
  for (const Bytes budget : {1_GiB, 4_GiB, 16_GiB, 40_GiB}) {
    const auto plan = PlanSlots(kFp32, numel, 0, 0, budget);
    REQUIRE(plan.ok());
    const Bytes used =
        kFixedDevice + plan->slots * SlotBytes(kFp32, plan->bucket_numel, SlotKind::kWhole);
    INFO(budget << ": " << plan->slots << " slots of " << plan->bucket_numel);
    CHECK(used <= budget);
    CHECK((used > budget - budget / 8 || plan->bucket_numel == store::kMostBucket));
    CHECK(plan->bucket_numel <= store::kMostBucket);
  }
}

TEST_CASE("the smallest budget that does is named, and does") {
  for (const uint32_t slots : {0u, 1u, 3u}) {
    const auto refused = PlanSlots(kFp32, 1 << 30, slots, 0, 1_MiB);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == Code::kResourceExhausted);
    unsigned long long smallest = 0;
    const char* const text = strstr(refused.error().what, "does is ");
    REQUIRE(text != nullptr);
    REQUIRE(sscanf(text, "does is %llu", &smallest) == 1);
    CHECK(PlanSlots(kFp32, 1 << 30, slots, 0, smallest).ok());
    CHECK_FALSE(PlanSlots(kFp32, 1 << 30, slots, 0, smallest - 1).ok());
  }
}

TEST_CASE("a slot is its encoded bytes, four bytes an element and segment, and little else") {
  const uint64_t numel = 1 << 20;
  Bytes encoded = 0;
  for (const store::Segment& segment : kFp32) encoded += store::EncodedBytes(segment, numel);
  CHECK(SlotBytes(kFp32, numel, SlotKind::kWhole) <= encoded + 3 * 4 * numel + 64_KiB);
}

}  // namespace
}  // namespace parkade::shim
