// What the timeline keeps, forgets and tells, and to whom.
#include "daemon/node_timeline.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "daemon/status.h"

namespace parkade::daemon {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kBegin = 1'000'000 * kSecond;
const Caller kRoot{0, true};

// A node at that second, with one process that holds so much under a tag.
NodeSample At(uint64_t second, Bytes bytes, uid_t uid = 7) {
  NodeSample sample;
  sample.time_ns = kBegin + second * kSecond;
  sample.host = {100_GiB, 50_GiB};
  sample.gpus.push_back({"GPU-a", "one", 80_GiB, 80_GiB - bytes, {}});
  ProcessSample& process = sample.processes.emplace_back();
  process.view.identity.pid = 4711;
  process.view.identity.start_ticks = 5;
  process.view.identity.uid = uid;
  process.view.introduction.job = "rl";
  process.parts.push_back({"GPU-a", "weights", wire::Place::kGpu, bytes});
  return sample;
}

// All that a caller is told, in order: points by "kind/tag".
struct Told {
  std::map<std::string, std::vector<std::pair<uint64_t, uint64_t>>> points;  // second, bytes
  std::vector<std::string> marks, operations;

  Told(const NodeTimeline& timeline, const Caller& caller, uint64_t since = 0,
       uint64_t until = UINT64_MAX) {
    std::map<uint32_t, std::string> names;
    timeline.Read(caller, since, until, [&](const v1::TimelineEntry& entry) {
      if (entry.has_series()) {
        names[entry.series().id()] =
            v1::TimelineSeries::Kind_Name(entry.series().kind()) + "/" + entry.series().tag();
      }
      uint64_t ms = 0;
      for (int i = 0; i < entry.points().series_size(); ++i) {
        ms += uint64_t(entry.points().time_ms(i));
        points[names.at(entry.points().series(i))].emplace_back(ms / 1000 - kBegin / kSecond,
                                                                entry.points().bytes(i));
      }
      if (entry.has_mark()) marks.push_back(entry.mark().name());
      if (entry.has_operation()) operations.push_back(entry.operation().id());
      return true;
    });
  }
  std::vector<std::pair<uint64_t, uint64_t>> hbm() { return points["KIND_HBM/weights"]; }
};

v1::MarkRequest Request(const std::string& name,
                        v1::TimelineMark::Kind kind = v1::TimelineMark::KIND_PHASE) {
  v1::MarkRequest request;
  request.set_name(name);
  request.set_kind(kind);
  return request;
}

}  // namespace

TEST_CASE("a ledger that has not changed is not read again") {
  KnownParts known;
  const KnownParts::Key key{4711, 5};
  wire::LedgerHeader header = {};
  int reads = 0;
  Bytes bytes = 1_GiB;
  bool is_readable = true;
  const auto read = [&]() -> absl::StatusOr<wire::LedgerView> {
    ++reads;
    if (!is_readable) return absl::NotFoundError("gone");
    wire::LedgerView ledger = {};
    ledger.header.devices[0].used = 1;
    ledger.header.devices[0].resident_bytes = bytes;
    return ledger;
  };
  const auto look = [&] {
    const auto parts = known.Of(key, header, read);
    return parts.empty() ? Bytes{0} : parts.front().bytes;
  };

  CHECK(look() == 1_GiB);
  bytes = 2_GiB;  // a record may come a moment after its header
  CHECK(look() == 2_GiB);
  CHECK(look() == 2_GiB);
  CHECK(reads == 2);
  bytes = 3_GiB;
  header.allocations = 1;
  CHECK(look() == 3_GiB);
  CHECK(look() == 3_GiB);
  CHECK(look() == 3_GiB);
  CHECK(reads == 4);
  known.Keep({key});
  look();
  CHECK(reads == 4);
  known.Keep({});
  look();
  CHECK(reads == 5);
  is_readable = false;
  CHECK(look() == 0);
  is_readable = true;
  CHECK(look() == 3_GiB);
}

TEST_CASE("only what changes is kept, and what is not there any more is zero") {
  NodeTimeline timeline({});
  timeline.Add(At(0, 3_GiB));
  timeline.Add(At(10, 3_GiB));
  timeline.Add(At(20, 5_GiB));
  NodeSample without = At(30, 0);
  without.processes.clear();
  timeline.Add(without);
  timeline.Add(At(25, 9_GiB));  // an older look that comes late
  using Points = std::vector<std::pair<uint64_t, uint64_t>>;
  CHECK(Told(timeline, kRoot).hbm() == Points{{0, 3_GiB}, {20, 5_GiB}, {30, 0}});
}

TEST_CASE("a process that has another's number is another one") {
  NodeTimeline timeline({});
  timeline.Add(At(0, 3_GiB));
  NodeSample next = At(10, 2_GiB);
  next.processes[0].view.identity.start_ticks = 6;
  timeline.Add(next);
  size_t series = 0;
  timeline.Read(kRoot, 0, UINT64_MAX, [&](const v1::TimelineEntry& entry) {
    series += entry.series().kind() == v1::TimelineSeries::KIND_HBM;
    return true;
  });
  CHECK(series == 2);
  CHECK(Told(timeline, kRoot).hbm().size() == 3);  // 3 GiB, its end, 2 GiB
}

TEST_CASE("the oldest is forgotten, and what a series was then stays known") {
  NodeTimeline::Limits limits;
  limits.points = 10;
  limits.series = 4;
  NodeTimeline timeline(limits);
  for (uint64_t i = 0; i < 100; ++i) timeline.Add(At(i, (i % 2 + 1) * 1_GiB));
  Told told(timeline, kRoot);
  size_t points = 0;
  for (const auto& [name, all] : told.points) points += all.size();
  CHECK(points <= 10 + 4);  // and the first value of each series
  CHECK(told.points["KIND_HOST_AVAILABLE/"].front().second == 50_GiB);
  CHECK(told.hbm().back() == std::pair<uint64_t, uint64_t>(99, 2_GiB));
}

TEST_CASE("a part of the time begins with what was before it") {
  NodeTimeline timeline({});
  timeline.Add(At(0, 3_GiB));
  timeline.Add(At(20, 5_GiB));
  timeline.Add(At(40, 1_GiB));
  using Points = std::vector<std::pair<uint64_t, uint64_t>>;
  CHECK(Told(timeline, kRoot, kBegin + 10 * kSecond, kBegin + 30 * kSecond).hbm() ==
        Points{{10, 3_GiB}, {20, 5_GiB}});
}

TEST_CASE("who does not see all sees his own processes, marks and operations") {
  NodeTimeline timeline({});
  const Caller owner{7}, other{8};
  timeline.Add(At(0, 3_GiB, 7));
  REQUIRE(timeline.Mark(owner, Request("train")).ok());
  v1::Operation operation;
  operation.set_id("m-1");
  operation.set_caller(owner.Name());
  timeline.Add(operation);
  for (const Caller& caller : {owner, kRoot}) {
    Told told(timeline, caller);
    CHECK(told.hbm().size() == 1);
    CHECK(told.marks == std::vector<std::string>{"train"});
    CHECK(told.operations == std::vector<std::string>{"m-1"});
  }
  Told told(timeline, other);
  CHECK(told.hbm().empty());
  CHECK(told.marks.empty());
  CHECK(told.operations.empty());
  CHECK(told.points["KIND_GPU_USED/"].size() == 1);
}

TEST_CASE("a mark has a name that can be printed") {
  NodeTimeline timeline({});
  const auto reason = [&](const v1::MarkRequest& request) {
    return ReasonOf(timeline.Mark(kRoot, request).status());
  };
  CHECK(reason(Request("")) == "BAD_REQUEST");
  CHECK(reason(Request("a\nb")) == "BAD_REQUEST");
  CHECK(reason(Request(std::string(65, 'x'))) == "BAD_REQUEST");
  CHECK(reason(Request("a", v1::TimelineMark::Kind(9))) == "BAD_REQUEST");
  CHECK(timeline.Mark(kRoot, Request("", v1::TimelineMark::KIND_END)).ok());
  CHECK(timeline.Mark(kRoot, Request("a", v1::TimelineMark::KIND_UNSPECIFIED))->kind() ==
        v1::TimelineMark::KIND_PHASE);
}

TEST_CASE("operations and marks are bounded") {
  NodeTimeline::Limits limits;
  limits.operation_bytes = 2000;
  limits.marks = 3;
  NodeTimeline timeline(limits);
  v1::Operation operation;
  operation.set_caller(std::string(100, 'c'));
  for (int i = 0; i < 100; ++i) {
    operation.set_id(std::to_string(i));
    timeline.Add(operation);
    REQUIRE(timeline.Mark(kRoot, Request(std::to_string(i))).ok());
  }
  Told told(timeline, kRoot);
  CHECK(told.operations.size() < 25);
  CHECK(told.operations.back() == "99");
  CHECK(told.marks == std::vector<std::string>{"97", "98", "99"});
}

TEST_CASE("a ledger is added up by GPU, tag and place, with what nobody asked for as slack") {
  wire::LedgerView ledger{};
  ledger.header.devices[0].used = 1;
  ledger.header.devices[0].resident_bytes = 10_MiB;
  ledger.header.devices[0].foreign_bytes = 3_MiB;
  const auto add = [&](Bytes bytes, wire::Place place, const char* tag, int device = 0) {
    wire::LedgerRecord record{};
    record.bytes = bytes;
    record.device = device;
    record.place = uint32_t(place);
    record.allocation_class = uint32_t(wire::AllocationClass::kPausable);
    std::copy_n(tag, strlen(tag), record.tag);
    ledger.records.push_back(record);
  };
  add(4_MiB, wire::Place::kGpu, "weights");
  add(4_MiB, wire::Place::kGpu, "weights");
  add(5_MiB, wire::Place::kHost, "kv");
  add(6_MiB, wire::Place::kDiscarded, "kv");
  add(7_MiB, wire::Place::kGpu, "weights", 99);  // a device that cannot be
  std::map<std::pair<std::string, wire::Place>, Bytes> found;
  for (const TagBytes& part : PartsOf(ledger)) found[{part.tag, part.place}] = part.bytes;
  CHECK(found == decltype(found){{{"weights", wire::Place::kGpu}, 8_MiB},
                                 {{"kv", wire::Place::kHost}, 5_MiB},
                                 {{kSlackTag, wire::Place::kGpu}, 2_MiB},
                                 {{kForeignTag, wire::Place::kGpu}, 3_MiB}});
}

TEST_CASE("what moves is its tag's as far as the device still or already has it") {
  wire::LedgerView ledger{};
  ledger.header.devices[0].used = 1;
  ledger.header.devices[0].resident_bytes = 10_MiB;
  ledger.header.shifted_bytes[0] = uint64_t(-int64_t(4_MiB));  // has gone, of the 10
  wire::LedgerRecord record{};
  record.bytes = 8_MiB;
  record.place = uint32_t(wire::Place::kMoving);
  record.allocation_class = uint32_t(wire::AllocationClass::kPausable);
  ledger.records.push_back(record);
  const auto evicting = PartsOf(ledger);
  REQUIRE(evicting.size() == 1);
  CHECK(evicting[0].bytes == 6_MiB);
  ledger.header.devices[0].resident_bytes = 0;
  ledger.header.shifted_bytes[0] = 3_MiB;  // has come
  CHECK(PartsOf(ledger).at(0).bytes == 3_MiB);
  ledger.header.shifted_bytes[0] = UINT64_MAX / 2;  // a claim that cannot be
  CHECK(PartsOf(ledger).at(0).bytes == 8_MiB);
}

}  // namespace parkade::daemon
