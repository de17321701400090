// Recordings, charts and checks of `parkade report`, on figures that are known; and `parkade mark`.
#include "cli/report.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

using Series = v1::TimelineSeries;
constexpr uint64_t kMiB = uint64_t(1) << 20;
constexpr int64_t kBegin = 1'000'000'000;  // seconds

// A recording that is made point by point.
class Maker {
 public:
  Maker() {
    v1::TimelineEntry entry;
    entry.mutable_start()->set_format(1);
    Add(entry);
  }
  uint32_t Curve(Series::Kind kind, int pid, const std::string& tag = "") {
    v1::TimelineEntry entry;
    auto* series = entry.mutable_series();
    series->set_id(++last_);
    series->set_kind(kind);
    series->set_pid(pid);
    series->set_tag(tag);
    if (kind == Series::KIND_GPU_USED || kind == Series::KIND_HBM) series->set_gpu_uuid("GPU-a");
    if (kind == Series::KIND_GPU_USED) series->set_capacity_bytes(1000 * kMiB);
    Add(entry);
    return last_;
  }
  void Point(uint32_t id, int64_t second, uint64_t mib) {
    v1::TimelineEntry entry;
    entry.mutable_points()->add_series(id);
    entry.mutable_points()->add_time_ms((kBegin + second) * 1000);
    entry.mutable_points()->add_bytes(mib * kMiB);
    Add(entry);
  }
  void Mark(int64_t second, v1::TimelineMark::Kind kind, const std::string& name) {
    v1::TimelineEntry entry;
    entry.mutable_mark()->set_kind(kind);
    entry.mutable_mark()->set_name(name);
    entry.mutable_mark()->mutable_time()->set_seconds(kBegin + second);
    Add(entry);
  }
  // A pause of pid 1 from that second to the next.
  v1::TransitionResult& Pause(int64_t second) {
    v1::TimelineEntry& entry = entries.emplace_back();
    auto* operation = entry.mutable_operation();
    operation->set_id("m-1");
    operation->set_kind(v1::Operation::KIND_PAUSE);
    operation->set_state(v1::Operation::STATE_DONE);
    operation->mutable_begin_time()->set_seconds(kBegin + second);
    operation->mutable_end_time()->set_seconds(kBegin + second + 1);
    auto& result = *operation->add_results();
    result.set_pid(1);
    return result;
  }
  Recording Done() const {
    RecordingReader reader;
    for (const auto& entry : entries) REQUIRE(reader.Add(entry));
    return reader.Finish("test");
  }

  std::vector<v1::TimelineEntry> entries;

 private:
  void Add(const v1::TimelineEntry& entry) { entries.push_back(entry); }
  uint32_t last_ = 0;
};

// How a check of that rule came out.
bool Holds(const Recording& recording, const std::string& rule, uint64_t chunk = 256 * kMiB) {
  bool any = false, all = true;
  for (const Check& check : CheckRecording(recording, chunk)) {
    if (check.rule != rule) continue;
    any = true;
    all = all && check.ok;
  }
  REQUIRE(any);
  return all;
}

}  // namespace

TEST_CASE("a phase lasts until the next one, its end, or that of the recording") {
  Maker maker;
  maker.Mark(0, v1::TimelineMark::KIND_PHASE, "generate");
  maker.Mark(5, v1::TimelineMark::KIND_PHASE, "train");
  maker.Mark(6, v1::TimelineMark::KIND_POINT, "half");
  maker.Mark(8, v1::TimelineMark::KIND_END, "");
  maker.Mark(9, v1::TimelineMark::KIND_PHASE, "generate");
  maker.Point(maker.Curve(Series::KIND_HBM, 1), 12, 1);
  const auto phases = maker.Done().Phases();
  REQUIRE(phases.size() == 3);
  CHECK(phases[0].end_ms == (kBegin + 5) * 1000);
  CHECK(phases[1].end_ms == (kBegin + 8) * 1000);
  CHECK(phases[2].end_ms == (kBegin + 12) * 1000);
}

TEST_CASE("what a phase did to a tag is the mean of its times") {
  Maker maker;
  const auto weights = maker.Curve(Series::KIND_HBM, 1, "weights");
  for (const int64_t second : {0, 10}) {
    maker.Mark(second, v1::TimelineMark::KIND_PHASE, "train");
    maker.Point(weights, second, 100);
    maker.Point(weights, second + 3, second == 0 ? 10 : 30);
    maker.Mark(second + 5, v1::TimelineMark::KIND_END, "");
  }
  const auto changes = PhaseChanges(maker.Done());
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].times == 2);
  CHECK(changes[0].before == Approx(100 * kMiB));
  CHECK(changes[0].after == Approx(20 * kMiB));
}

TEST_CASE("a chart has at most so many moments, and its peaks") {
  Maker maker;
  const auto hbm = maker.Curve(Series::KIND_HBM, 1, "weights");
  for (int64_t second = 0; second < 5000; ++second) {
    maker.Point(hbm, second, second == 2713 ? 999 : uint64_t(second % 7));
  }
  const Chart chart = ChartsOf(maker.Done(), 300)[0];
  CHECK(chart.ms.size() <= 302);
  CHECK(chart.ms.size() > 200);
  CHECK(std::is_sorted(chart.ms.begin(), chart.ms.end()));
  uint64_t most = 0;
  for (size_t i = 0; i < chart.ms.size(); ++i) most = std::max(most, chart.TotalAt(i));
  CHECK(most == 999 * kMiB);
}

TEST_CASE("what a GPU has in use beside its processes is a layer of its own") {
  Maker maker;
  maker.Point(maker.Curve(Series::KIND_GPU_USED, 0), 0, 500);
  maker.Point(maker.Curve(Series::KIND_HBM, 1, "weights"), 0, 300);
  const Chart chart = ChartsOf(maker.Done(), 100)[0];
  REQUIRE(chart.layers.size() == 2);
  CHECK(chart.layers[0].tag == kOther);
  CHECK(chart.layers[0].bytes[0] == 200 * kMiB);
  CHECK(chart.capacity == 1000 * kMiB);
}

TEST_CASE("a pause whose bytes the driver did not show is found") {
  Maker maker;
  auto* gpu = maker.Pause(1).add_gpus();
  gpu->set_uuid("GPU-a");
  gpu->set_free_before_bytes(100 * kMiB);
  gpu->set_expected_bytes(400 * kMiB);
  gpu->set_free_after_bytes(495 * kMiB);  // page tables of the backup
  CHECK(Holds(maker.Done(), "drop"));
  gpu->set_free_after_bytes(300 * kMiB);
  CHECK_FALSE(Holds(maker.Done(), "drop"));
  gpu->set_free_after_bytes(50 * kMiB);
  CHECK_FALSE(Holds(maker.Done(), "drop"));
}

TEST_CASE("a pause to disk that took host memory is found") {
  for (const auto kind : {Series::KIND_HOST_POOL, Series::KIND_HOST_RESIDENT}) {
    Maker maker;
    const auto host = maker.Curve(kind, 1);
    maker.Point(host, 0, 100);
    maker.Point(host, 2, 410);
    maker.Pause(1).set_disk_bytes(4000 * kMiB);
    CHECK(Holds(maker.Done(), "flat"));
    CHECK_FALSE(Holds(maker.Done(), "flat", 128 * kMiB));
  }
}

TEST_CASE("a handoff that held more than it might is found") {
  Maker maker;
  auto& result = maker.Pause(1);
  auto* operation = maker.entries.back().mutable_operation();
  operation->set_kind(v1::Operation::KIND_HANDOFF);
  auto* gpu = result.add_gpus();
  gpu->set_uuid("GPU-a");
  gpu->set_allowed_bytes(500 * kMiB);
  gpu->set_peak_bytes(500 * kMiB);
  CHECK(Holds(maker.Done(), "peak"));
  gpu->set_peak_bytes(501 * kMiB);
  CHECK_FALSE(Holds(maker.Done(), "peak"));
}

TEST_CASE("text of other processes is no markup of a page or picture") {
  Maker maker;
  maker.Point(maker.Curve(Series::KIND_HBM, 1, "</script><b>&\""), 0, 5);
  maker.Mark(0, v1::TimelineMark::KIND_PHASE, "<img src=x>");
  maker.Mark(60, v1::TimelineMark::KIND_END, "");
  std::ostringstream page, picture;
  WriteHtml({maker.Done()}, page);
  WriteSvg(maker.Done(), picture);
  CHECK(page.str().find("</script><b>") == std::string::npos);
  for (const std::string& text : {page.str(), picture.str()}) {
    CHECK(text.find("<img src=x>") == std::string::npos);
  }
}

TEST_CASE("a series that nobody declared, or another format, is no recording") {
  v1::TimelineEntry points;
  points.mutable_points()->add_series(7);
  points.mutable_points()->add_time_ms(1);
  points.mutable_points()->add_bytes(1);
  CHECK_FALSE(RecordingReader().Add(points));
  points.mutable_points()->add_bytes(2);
  CHECK_FALSE(RecordingReader().Add(points));
  v1::TimelineEntry start;
  start.mutable_start()->set_format(2);
  CHECK_FALSE(RecordingReader().Add(start));
}

TEST_CASE("report asks the daemon for what is wanted, and says what is wrong with it") {
  FakeControl daemon;
  Maker maker;
  maker.Pause(1);
  daemon.timeline = maker.entries;
  const Outcome o = RunCli({"report", "--last", "1h", daemon.flag()});
  INFO(o.err);
  CHECK(o.exit_code == 0);
  CHECK(o.out.find("m-1") != std::string::npos);
  CHECK(daemon.timeline_request.since().seconds() > kBegin);
  daemon.timeline[0].mutable_start()->set_format(9);
  CHECK(RunCli({"report", daemon.flag()}).exit_code == kExitFailed);
  CHECK(RunCli({"report", "--html", "/nowhere/x.html", daemon.flag()}).exit_code == kExitFailed);
  daemon.error = grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  CHECK(RunCli({"report", daemon.flag()}).exit_code == kExitUnreachable);
}

TEST_CASE("mark says what kind of mark it is") {
  FakeControl daemon;
  CHECK(RunCli({"mark", "train", "--job", "rl", daemon.flag()}).exit_code == 0);
  CHECK(daemon.mark_request.name() == "train");
  CHECK(daemon.mark_request.job() == "rl");
  CHECK(daemon.mark_request.kind() == v1::TimelineMark::KIND_PHASE);
  CHECK(RunCli({"mark", "half", "--point", daemon.flag()}).exit_code == 0);
  CHECK(daemon.mark_request.kind() == v1::TimelineMark::KIND_POINT);
  CHECK(RunCli({"mark", "--end", daemon.flag()}).exit_code == 0);
  CHECK(daemon.mark_request.kind() == v1::TimelineMark::KIND_END);
  CHECK(RunCli({"mark", "train", "--end", daemon.flag()}).exit_code == kExitUsage);
  CHECK(RunCli({"mark", daemon.flag()}).exit_code == kExitUsage);
}

}  // namespace parkade::cli
