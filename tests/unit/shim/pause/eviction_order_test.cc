// What goes where, and which grants suffice.
#include "shim/pause/eviction_order.h"

#include <catch2/catch.hpp>
#include <memory>

#include "common/text.h"

namespace parkade::shim {
namespace {

using wire::Policy;

struct Ranges {
  Range* Add(const char* tag, Bytes live) {
    auto range = std::make_unique<Range>();
    CopyText(range->tag, tag);
    range->extents = {{0, live}};
    owned.push_back(std::move(range));
    all.push_back(owned.back().get());
    return all.back();
  }
  std::vector<std::unique_ptr<Range>> owned;
  std::vector<Range*> all;
};

TEST_CASE("auto takes what host memory the host policy leaves, range by range") {
  Ranges ranges;
  Range* first = ranges.Add("x", 6_MiB);
  Range* second = ranges.Add("x", 6_MiB);
  Range* pinned = ranges.Add("h", 4_MiB);
  wire::TagPolicy tag{};
  CopyText(tag.tag, "h");
  tag.policy = uint32_t(Policy::kHost);
  EvictionPlan plan;
  plan.policy = Policy::kAuto;
  plan.host_bytes = 12_MiB + 100;  // the odd bytes cannot be used
  plan.disk_bytes = 4_MiB;
  plan.tags = std::span(&tag, 1);
  const auto order = OrderEviction(ranges.all, plan, 4_MiB);
  REQUIRE(order.ok());
  REQUIRE(order->moves.size() == 3);
  CHECK(order->moves[0].range == pinned);
  CHECK(order->moves[1].range == first);
  CHECK(order->moves[1].host_bytes == 6_MiB);
  CHECK(order->moves[2].range == second);
  CHECK(order->moves[2].host_bytes == 2_MiB);
  CHECK(order->host_bytes == 12_MiB);
  CHECK(order->disk_bytes == 4_MiB);

  plan.disk_bytes = 4_MiB - 4096;
  CHECK_FALSE(OrderEviction(ranges.all, plan, 4_MiB).ok());
  plan.disk_bytes = 4_MiB;
  CHECK_FALSE(OrderEviction(ranges.all, plan, 4_MiB - 4096).ok());  // granted, not preallocated
}

TEST_CASE("discarded ranges come last, kept ones not at all") {
  Ranges ranges;
  Range* discarded = ranges.Add("kv_cache", 1_MiB);
  Range* kept = ranges.Add("graph", 1_MiB);
  Range* moved = ranges.Add("weights", 1_MiB);
  wire::TagPolicy tags[2] = {};
  CopyText(tags[0].tag, "kv_cache");
  tags[0].policy = uint32_t(Policy::kDiscard);
  CopyText(tags[1].tag, "graph");
  tags[1].policy = uint32_t(Policy::kKeep);
  EvictionPlan plan;
  plan.host_bytes = 1_MiB;
  plan.tags = tags;
  const auto order = OrderEviction(ranges.all, plan, 0);
  REQUIRE(order.ok());
  REQUIRE(order->moves.size() == 2);
  CHECK(order->moves[0].range == moved);
  CHECK(order->moves[1].range == discarded);
  CHECK(order->kept == std::vector<Range*>{kept});
}

}  // namespace
}  // namespace parkade::shim
