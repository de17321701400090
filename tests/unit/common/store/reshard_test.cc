// Checkpoints loaded under other layouts: every parameter found by name, bit for bit.
#include "common/store/reshard.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/unit/common/store/world.h"

namespace parkade::store {
namespace {

// Cuts along both axes, sizes that are no multiples of 32, an empty one, experts of equal size, one
// that is larger than a bucket.
std::vector<Parameter> Model() {
  return {{"embedding", {50, 24}, 0},
          {"layers.0.norm", {24}},
          {"layers.0.up", {96, 24}, 0},
          {"layers.0.down", {24, 96}, 1},
          {"layers.1.conv", {4, 12, 7}, 1},
          {"empty", {0, 8}, 0},
          {"scalar", {}},
          {"experts.0", {30, 11}},
          {"experts.1", {30, 11}},
          {"experts.2", {30, 11}},
          {"experts.3", {30, 11}}};
}

std::vector<Segment> Plain() {
  return {{"main", Encoding::kFp32},
          {"exp_avg", Encoding::kBf16},
          {"exp_avg_sq", Encoding::kFp16},
          {"state", Encoding::kRaw, 64}};
}
std::vector<Segment> Narrow() {
  return {{"main", Encoding::kLo16},
          {"exp_avg", Encoding::kQ8First},
          {"exp_avg_sq", Encoding::kFp8Second}};
}

// A checkpoint of `model` cut one way.
struct Saved {
  Scratch scratch;
  Checkpoint checkpoint;
  Values values;

  Saved(const std::vector<Parameter>& model, const Cut& cut, const std::vector<Segment>& segments) {
    Save(scratch.path(), 3, LayoutsOf(model, cut, segments));
    auto opened = Checkpoint::Open(scratch.path(), 3);
    if (!opened.ok()) FAIL(opened.error().what);
    checkpoint = std::move(*opened);
    values = DecodedOf(checkpoint);
  }
  std::string Refused(const Layout& wanted, Conversion conversion = Conversion::kRefuse) const {
    auto plan = Resharding::Plan(checkpoint, wanted, conversion);
    return plan.ok() ? "" : std::string(plan.error().reason) + ": " + plan.error().what;
  }
};

// All values are loaded as they were saved, and none is encoded again.
void CheckSame(const Saved& saved, const std::vector<Parameter>& model, const Cut& cut,
               const std::vector<Segment>& segments) {
  uint64_t reencoded;
  const Values loaded =
      Loaded(saved.checkpoint, LayoutsOf(model, cut, segments), Conversion::kRefuse, reencoded);
  INFO("dp " << cut.dp << ", tp " << cut.tp << ", buckets of " << cut.bucket);
  REQUIRE(reencoded == 0);
  REQUIRE(loaded.size() == saved.values.size());
  for (const auto& [name, values] : saved.values) {
    INFO(name);
    REQUIRE(std::count(values.begin(), values.end(), 0xdeadbeef) == 0);
    REQUIRE(loaded.at(name) == values);
  }
}

TEST_CASE("any number of data-parallel ranks loads what any other saved") {
  for (const uint32_t from : {1, 2, 3, 4, 8}) {
    const Saved saved(Model(), {.dp = from}, Plain());
    for (const uint32_t to : {1, 2, 3, 4, 8}) CheckSame(saved, Model(), {.dp = to}, Plain());
  }
}

TEST_CASE("tensors cut along axis 0, along another one and not at all load into each other") {
  for (const uint32_t from : {1, 2, 4}) {
    const Saved saved(Model(), {.dp = 2, .tp = from}, Plain());
    for (const uint32_t to : {1, 2, 3}) {
      CheckSame(saved, Model(), {.dp = 3, .tp = to, .bucket = 512}, Plain());
    }
  }
}

TEST_CASE("pipeline stages and expert groups that merge need only names") {
  std::vector<Parameter> split = Model();
  for (size_t i = 0; i < split.size(); ++i) split[i].stage = uint32_t(i * 4 / split.size());
  const Saved saved(split, {.dp = 2}, Narrow());
  std::vector<Parameter> merged = split;
  for (Parameter& parameter : merged) parameter.stage /= 2;
  for (const Cut& cut : {Cut{.dp = 2, .align = 32}, Cut{.dp = 1}}) {
    uint64_t reencoded;
    const Values loaded =
        Loaded(saved.checkpoint, LayoutsOf(merged, cut, Narrow()), Conversion::kRefuse, reencoded);
    for (const auto& [name, values] : saved.values) {
      if (name.ends_with(" main")) REQUIRE(loaded.at(name) == values);
    }
  }
}

TEST_CASE("parameters of equal size in another order are found by name") {
  const Saved saved(Model(), {.dp = 2}, Plain());
  std::vector<Parameter> swapped = Model();
  std::reverse(swapped.begin(), swapped.end());
  CheckSame(saved, swapped, {.dp = 2}, Plain());
  CHECK(saved.values.at("experts.0 main") != saved.values.at("experts.1 main"));
}

TEST_CASE("another bucket size loads the same, codes and ties included") {
  const Saved saved(Model(), {.dp = 1, .bucket = 1024}, Narrow());
  for (const uint64_t bucket : {32, 96, 4096, 1 << 20}) {
    CheckSame(saved, Model(), {.dp = 1, .bucket = bucket}, Narrow());
  }
}

TEST_CASE("groups that a cut does not touch keep their codes; those it joins are encoded again") {
  const Saved aligned(Model(), {.dp = 3, .align = 32}, Narrow());
  CheckSame(aligned, Model(), {.dp = 1}, Narrow());
  CheckSame(aligned, Model(), {.dp = 4, .align = 32}, Narrow());
  // Cut in the middle of groups.
  const Saved saved(Model(), {.dp = 7}, Narrow());
  uint64_t reencoded;
  const Values loaded = Loaded(saved.checkpoint, LayoutsOf(Model(), {.dp = 1}, Narrow()),
                               Conversion::kRefuse, reencoded);
  CHECK(reencoded > 0);
  CHECK(reencoded <= 2 * 6 * kGroup);
  uint64_t changed = 0;
  for (const auto& [name, values] : saved.values) {
    INFO(name);
    for (size_t i = 0; i < values.size(); ++i) {
      const float before = FloatOf(values[i]), after = FloatOf(loaded.at(name)[i]);
      changed += values[i] != loaded.at(name)[i];
      // Values are below 1, so a group's scale is too; e4m3 has three bits of fraction.
      REQUIRE(std::abs(before - after) <= (name.ends_with("_sq") ? 0.15f * before + 0.01f : 0.02f));
      if (name.ends_with(" main")) REQUIRE(values[i] == loaded.at(name)[i]);
    }
  }
  CHECK(changed <= reencoded);
  CHECK(changed > 0);
}

TEST_CASE("what is missing, double or of another shape is named before a byte is read") {
  const std::vector<Segment> segments = Plain();
  const Saved saved(Model(), {.dp = 2}, segments);
  const auto wanted = [&segments](Entry entry) {
    auto layout = Layout::Make({std::move(entry)}, segments, 1024);
    REQUIRE(layout.ok());
    return std::move(*layout);
  };
  CHECK(
      saved.Refused(wanted(
          {.name = "layers.9.norm", .global_shape = {24}, .local_shape = {24}, .flat_end = 24})) ==
      "NO_SUCH_PARAMETER: layers.9.norm: nothing of that name");
  CHECK(saved
            .Refused(wanted({.name = "layers.0.norm",
                             .global_shape = {4, 6},
                             .local_shape = {4, 6},
                             .flat_end = 24}))
            .starts_with("OTHER_SHAPE: layers.0.norm"));
  // A set that lacks elements 5 to 9, and one that has 5 to 9 twice.
  const auto set = [&segments](uint64_t first_end, uint64_t second_begin) {
    std::vector<Layout> layouts;
    for (const auto& [begin, end] :
         {std::pair{uint64_t{0}, first_end}, {second_begin, uint64_t{24}}}) {
      auto layout = Layout::Make({{.name = "w",
                                   .global_shape = {24},
                                   .local_shape = {24},
                                   .flat_begin = begin,
                                   .flat_end = end}},
                                 segments, 1024);
      REQUIRE(layout.ok());
      layouts.push_back(std::move(*layout));
    }
    return layouts;
  };
  const Layout whole =
      wanted({.name = "w", .global_shape = {24}, .local_shape = {24}, .flat_end = 24});
  for (const auto& [first_end, second_begin, refusal] :
       {std::tuple{5, 9, "GAP: w: elements 5 to 9 of its local tensor were saved by no rank"},
        {9, 5, "DOUBLE: w: elements 5 to 9 of its local tensor were saved twice"},
        {9, 24, "GAP: w: elements 9 to 24 of its local tensor were saved by no rank"},
        {9, 9, ""}}) {
    Scratch scratch;
    Save(scratch.path(), 1, set(uint64_t(first_end), uint64_t(second_begin)));
    auto checkpoint = Checkpoint::Open(scratch.path(), 1);
    REQUIRE(checkpoint.ok());
    auto plan = Resharding::Plan(*checkpoint, whole, Conversion::kRefuse);
    CHECK((plan.ok() ? "" : std::string(plan.error().reason) + ": " + plan.error().what) ==
          refusal);
  }
}

TEST_CASE("another encoding is loaded only when asked for") {
  const std::vector<Parameter> model = Model();
  const Saved saved(model, {.dp = 2}, Narrow());
  std::vector<Segment> wide = Narrow();
  for (Segment& segment : wide) segment.encoding = Encoding::kFp32;
  const Layout wanted = LayoutsOf(model, {}, wide)[0];
  CHECK(saved.Refused(wanted).starts_with("OTHER_ENCODING: segment main: rank 0"));
  // fp32 holds whatever the others held.
  uint64_t reencoded;
  CHECK(Loaded(saved.checkpoint, {wanted}, Conversion::kAllow, reencoded) == saved.values);
  CHECK(reencoded == 3 * wanted.numel());
  // And main goes into lo16 and back bit for bit.
  const Saved from_wide(model, {.dp = 2}, wide);
  const Values narrow = Loaded(from_wide.checkpoint, LayoutsOf(model, {.dp = 3}, Narrow()),
                               Conversion::kAllow, reencoded);
  for (const auto& [name, values] : from_wide.values) {
    if (name.ends_with(" main")) CHECK(narrow.at(name) == values);
  }
}

TEST_CASE("segments that are missing, more or opaque are refused by name") {
  const Saved saved(Model(), {}, Plain());
  std::vector<Segment> segments = Plain();
  segments.push_back({"max_exp_avg_sq", Encoding::kFp32});
  CHECK(saved.Refused(LayoutsOf(Model(), {}, segments)[0], Conversion::kAllow)
            .starts_with("MISSING_SEGMENT: segment max_exp_avg_sq"));
  segments = Plain();
  segments.pop_back();
  const Layout fewer = LayoutsOf(Model(), {}, segments)[0];
  CHECK(saved.Refused(fewer).starts_with("EXTRA_SEGMENT: segment state"));
  CHECK(saved.Refused(fewer, Conversion::kAllow) == "");
  segments = Plain();
  segments[3].raw_group_bytes = 32;
  CHECK(saved.Refused(LayoutsOf(Model(), {}, segments)[0], Conversion::kAllow)
            .starts_with("OTHER_ENCODING: segment state"));
  // Bytes for a group as a whole: 36 for 32 elements.
  segments[3].raw_group_bytes = 36;
  const Saved opaque(Model(), {.dp = 2}, segments);
  const Layout third = LayoutsOf(Model(), {.dp = 3}, segments)[1];
  auto plan = Resharding::Plan(opaque.checkpoint, third, Conversion::kRefuse);
  REQUIRE(plan.ok());
  std::string reason;
  for (uint32_t bucket = 0; bucket < third.buckets().size() && reason.empty(); ++bucket) {
    std::vector<uint8_t> bytes;
    BucketState state;
    if (auto r = plan->MakeBucket(bucket, bytes, state); !r.ok()) reason = r.error().reason;
  }
  CHECK(reason == "RAW_GROUP_CUT");
  // Whole groups move.
  const Saved whole({{"w", {640}}}, {.dp = 2}, segments);
  const Layout joined = LayoutsOf({{"w", {640}}}, {}, segments)[0];
  auto merge = Resharding::Plan(whole.checkpoint, joined, Conversion::kRefuse);
  REQUIRE(merge.ok());
  std::vector<uint8_t> bytes, first;
  BucketState state;
  REQUIRE(merge->MakeBucket(0, bytes, state).ok());
  REQUIRE(whole.checkpoint.ReadBucket(1, 0, first).ok());
  const Area& to = joined.buckets()[0].segments[3];
  const Area& from = whole.checkpoint.manifests()[1].layout.buckets()[0].segments[3];
  CHECK(memcmp(&bytes[to.offset + 10 * 36], &first[from.offset], 10 * 36) == 0);
  // One group on two ranks would be cut, although each needs one source group alone.
  const Layout half = LayoutsOf({{"w", {640}}}, {.dp = 40}, segments)[0];
  auto cut = Resharding::Plan(whole.checkpoint, half, Conversion::kRefuse);
  REQUIRE(cut.ok());
  CHECK(std::string(cut->MakeBucket(0, bytes, state).error().reason) == "RAW_GROUP_CUT");
}

}  // namespace
}  // namespace parkade::store
