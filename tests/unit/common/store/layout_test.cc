// Where a store's elements lie, and which descriptions of one are refused.
#include "common/store/layout.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <map>

namespace parkade::store {
namespace {

std::vector<Segment> Adam(Encoding main = Encoding::kFp32) {
  return {{"main", main}, {"exp_avg", Encoding::kQ8First}, {"exp_avg_sq", Encoding::kQ8Second}};
}

Entry Flat(std::string name, uint64_t numel, uint64_t begin, uint64_t end) {
  return {.name = std::move(name),
          .global_shape = {numel},
          .local_shape = {numel},
          .flat_begin = begin,
          .flat_end = end};
}
Entry Whole(std::string name, uint64_t numel) { return Flat(std::move(name), numel, 0, numel); }

std::string ReasonOf(const Result<Layout>& r) { return r.ok() ? "" : r.error().reason; }
std::string WhatOf(const Result<Layout>& r) { return r.ok() ? "" : r.error().what; }

// Every element of every entry stands in one piece, in order, on its place modulo 32, and pieces
// share no group.
void CheckCover(const Layout& layout) {
  std::map<uint32_t, uint64_t> next;
  for (const Bucket& bucket : layout.buckets()) {
    REQUIRE(bucket.numel % kGroup == 0);
    REQUIRE(bucket.numel <= layout.bucket_numel());
    uint64_t free_from = 0;
    for (const Piece& piece : bucket.pieces) {
      const Entry& entry = layout.entries()[piece.entry];
      if (!next.count(piece.entry)) next[piece.entry] = entry.flat_begin;
      REQUIRE(piece.numel() > 0);
      REQUIRE(piece.param_begin == next[piece.entry]);
      REQUIRE(piece.position % kGroup == piece.param_begin % kGroup);
      REQUIRE(piece.position / kGroup * kGroup >= free_from);
      next[piece.entry] = piece.param_end;
      free_from = RoundUp(piece.position + piece.numel(), kGroup);
      REQUIRE(free_from <= bucket.numel);
    }
  }
  for (uint32_t i = 0; i < layout.entries().size(); ++i) {
    const Entry& entry = layout.entries()[i];
    const uint64_t end = next.count(i) ? next[i] : entry.flat_begin;
    REQUIRE(end == entry.flat_end);
  }
}

TEST_CASE("entries follow each other on boundaries of 32 and are split at a bucket's end") {
  auto layout = Layout::Make(
      {Whole("a", 5), Whole("none", 0), Flat("b", 1000, 37, 700), Whole("c", 64), Whole("d", 1)},
      Adam(), 250);
  REQUIRE(layout.ok());
  CHECK(layout->bucket_numel() == 256);
  CHECK(layout->numel() == 5 + 663 + 64 + 1);
  CheckCover(*layout);
  REQUIRE(layout->buckets().size() == 4);
  const auto& first = layout->buckets()[0].pieces;
  REQUIRE(first.size() == 2);
  CHECK(first[1].position == 32 + 37 % 32);
  CHECK(first[1].param_end % kGroup == 0);
  CHECK(layout->buckets()[0].numel == 256);
  CHECK(layout->buckets()[3].numel < 256);
}

TEST_CASE("any mix of sizes is covered once, for any bucket size") {
  uint64_t state = 7;
  const auto random = [&state](uint64_t below) {
    state = Mix(state + 1);
    return state % below;
  };
  for (const uint64_t bucket : {1, 32, 33, 96, 4096, 100000}) {
    std::vector<Entry> entries;
    for (int i = 0; i < 60; ++i) {
      const uint64_t numel = random(3) == 0 ? random(40) : random(2000);
      const uint64_t begin = random(numel + 1), end = begin + random(numel - begin + 1);
      entries.push_back(Flat("p" + std::to_string(i), numel, begin, end));
    }
    auto layout = Layout::Make(entries, Adam(), bucket);
    REQUIRE(layout.ok());
    CheckCover(*layout);
  }
}

TEST_CASE("a bucket's file is one run of segments, each padded to 4096") {
  auto layout = Layout::Make({Whole("a", 100'000)}, Adam(Encoding::kLo16), 65536);
  REQUIRE(layout.ok());
  CHECK(layout->lo16() == 0);
  for (const Bucket& bucket : layout->buckets()) {
    Bytes at = 0;
    for (size_t i = 0; i < 3; ++i) {
      CHECK(bucket.segments[i].offset == at);
      CHECK(bucket.segments[i].bytes == EncodedBytes(layout->segments()[i], bucket.numel));
      at = RoundUp(at + bucket.segments[i].bytes, 4096);
    }
    CHECK(bucket.ties.offset == at);
    CHECK(bucket.ties.bytes == bucket.numel / 8);
    CHECK(bucket.live_bytes == RoundUp(at + bucket.numel / 8, 4096));
    CHECK(bucket.weights.offset == bucket.live_bytes);
    CHECK(bucket.saved_bytes == RoundUp(bucket.live_bytes + bucket.numel * 2, 4096));
  }
  CHECK(layout->live_bytes() == layout->buckets()[0].live_bytes + layout->buckets()[1].live_bytes);
}

TEST_CASE("the bucket size follows from the total, within its bounds") {
  const auto size = [](uint64_t numel) {
    auto layout = Layout::Make({Whole("a", numel)}, {{"main", Encoding::kFp32}});
    REQUIRE(layout.ok());
    CheckCover(*layout);
    return layout->bucket_numel();
  };
  CHECK(size(1000) == 16u << 20);
  CHECK(size(uint64_t{32} * 50'000'000) == RoundUp(50'000'000, 32));
  CHECK(size(23'250'000'000) == 200'000'000);
}

TEST_CASE("nothing at all is a layout without buckets") {
  auto layout = Layout::Make({}, Adam());
  REQUIRE(layout.ok());
  CHECK(layout->buckets().empty());
  CHECK(layout->live_bytes() == 0);
}

TEST_CASE("rounding bits are numbered alike for any cut along axis 0, and never twice") {
  const auto shard = [](int32_t axis, uint64_t offset, std::vector<uint64_t> local) {
    return Entry{.name = "w",
                 .global_shape = {6, 10},
                 .tp_axis = axis,
                 .tp_offset = offset,
                 .local_shape = local,
                 .flat_begin = 3,
                 .flat_end = local[0] * local[1]};
  };
  const auto counter = [](const Entry& entry) {
    return Layout::Make({entry}, Adam(), 1000)->buckets()[0].pieces[0].counter;
  };
  CHECK(counter(shard(0, 0, {6, 10})) == 3);
  CHECK(counter(shard(0, 2, {4, 10})) == 23);
  CHECK(counter(shard(1, 5, {6, 5})) == 33);
}

TEST_CASE("the layout's hash changes with whatever the bytes depend on, and nothing else") {
  const std::vector<Entry> entries = {Whole("a", 100), Flat("b", 100, 10, 90)};
  const auto hash = [](std::vector<Entry> e, std::vector<Segment> s, uint64_t bucket) {
    auto layout = Layout::Make(std::move(e), std::move(s), bucket);
    REQUIRE(layout.ok());
    return layout->hash();
  };
  const Digest base = hash(entries, Adam(), 64);
  CHECK(base == hash(entries, Adam(), 40));  // rounded up to the same
  auto changed = entries;
  changed[0].user_tag = 9;
  changed[0].group = 3;
  CHECK(base == hash(changed, Adam(), 64));
  changed = entries;
  changed[1].flat_begin = 11;
  CHECK_FALSE(base == hash(changed, Adam(), 64));
  changed = entries;
  std::swap(changed[0], changed[1]);
  CHECK_FALSE(base == hash(changed, Adam(), 64));
  changed = entries;
  changed[0].name = "aa";
  CHECK_FALSE(base == hash(changed, Adam(), 64));
  CHECK_FALSE(base == hash(entries, Adam(Encoding::kLo16), 64));
  CHECK_FALSE(base == hash(entries, Adam(), 96));
}

TEST_CASE("what cannot be a store is refused by name and reason") {
  const auto refused = [](Entry entry) {
    return ReasonOf(Layout::Make({Whole("ok", 4), std::move(entry)}, Adam(), 64));
  };
  CHECK(refused(Whole("", 4)) == "NO_NAME");
  CHECK(refused(Whole(std::string(5000, 'x'), 4)) == "NO_NAME");
  CHECK(refused(Whole(std::string("a\0b", 3), 4)) == "NO_NAME");
  CHECK(refused(Whole("ok", 8)) == "DUPLICATE_NAME");
  CHECK(refused(Flat("x", 10, 4, 3)) == "BAD_RANGE");
  CHECK(refused(Flat("x", 10, 4, 11)) == "BAD_RANGE");
  Entry cut = {.name = "w",
               .global_shape = {4, 4},
               .tp_axis = 1,
               .tp_offset = 2,
               .local_shape = {4, 2},
               .flat_begin = 0,
               .flat_end = 8};
  CHECK(refused(cut) == "");
  const auto changed = [&cut, &refused](auto change) {
    Entry entry = cut;
    change(entry);
    return refused(entry);
  };
  CHECK(changed([](Entry& e) { e.tp_offset = 3; }) == "BAD_SHAPE");
  CHECK(changed([](Entry& e) { e.tp_offset = ~0ull; }) == "BAD_SHAPE");
  CHECK(changed([](Entry& e) { e.tp_axis = 2; }) == "BAD_SHAPE");
  CHECK(changed([](Entry& e) { e.tp_axis = -2; }) == "BAD_SHAPE");
  CHECK(changed([](Entry& e) { e.local_shape = {3, 2}; }) == "BAD_SHAPE");
  CHECK(changed([](Entry& e) { e.local_shape = {4}; }) == "BAD_SHAPE");
  CHECK(changed([](Entry& e) { e.tp_axis = -1; }) == "BAD_SHAPE");
  CHECK(refused({.name = "w",
                 .global_shape = {1ull << 40, 1ull << 40},
                 .local_shape = {1ull << 40, 1ull << 40}}) == "TOO_LARGE");
  CHECK(WhatOf(Layout::Make({Flat("layer.7.weight", 10, 4, 11)}, Adam())) ==
        "layer.7.weight: elements 4 to 11 of 10");
  CHECK(ReasonOf(Layout::Make({}, Adam(), 200'000'001)) == "BUCKET_SIZE");
  CHECK(ReasonOf(Layout::Make({Whole("a", 1ull << 30)}, Adam(), 32)) == "BUCKET_SIZE");
  CHECK(ReasonOf(Layout::Make({}, {})) == "BAD_SEGMENT");
  CHECK(ReasonOf(Layout::Make({}, {{"m", Encoding::kFp32}, {"m", Encoding::kFp32}})) ==
        "BAD_SEGMENT");
  CHECK(ReasonOf(Layout::Make({}, {{"m", Encoding::kFp32}, {"n", Encoding::kLo16}})) ==
        "BAD_SEGMENT");
  CHECK(ReasonOf(Layout::Make({}, {{"m", Encoding(77)}})) == "BAD_SEGMENT");
  CHECK(ReasonOf(Layout::Make({}, {{"m", Encoding::kRaw, 0}})) == "BAD_SEGMENT");
  CHECK(ReasonOf(Layout::Make({}, {{"m", Encoding::kFp32, 4}})) == "BAD_SEGMENT");
}

TEST_CASE("entries are found by name") {
  auto layout = Layout::Make({Whole("b", 1), Whole("a", 1), Whole("c", 1)}, Adam());
  REQUIRE(layout.ok());
  CHECK(layout->Find("a") == 1);
  CHECK(layout->Find("b") == 0);
  CHECK(layout->Find("bb") == -1);
}

}  // namespace
}  // namespace parkade::store
