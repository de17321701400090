// The data of the page, small: layers as runs of equal values, in KiB.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/format.h"
#include "cli/json.h"
#include "cli/report.h"

namespace parkade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostTimes = 2400;       // of a chart: more than a screen has columns
constexpr size_t kMostOperations = 2000;  // the slowest

Json ToJson(const Layer& layer) {
  Json runs = Json::array();  // index, value, index, value, ...
  uint64_t last = 0;
  for (size_t i = 0; i < layer.bytes.size(); ++i) {
    const uint64_t kib = layer.bytes[i] >> 10;
    if (kib == last && i != 0) continue;
    runs.push_back(i);
    runs.push_back(last = kib);
  }
  return {{"process", layer.process}, {"tag", layer.tag}, {"runs", std::move(runs)}};
}

Json ToJson(const Chart& chart, int64_t begin_ms) {
  constexpr const char* kKinds[] = {"gpu", "host", "disk"};
  Json steps = Json::array();
  int64_t last = begin_ms;
  for (const int64_t ms : chart.ms) {
    steps.push_back(ms - last);
    last = ms;
  }
  Json json{{"kind", kKinds[int(chart.kind)]},
            {"title", chart.title},
            {"capacity", chart.capacity >> 10},
            {"steps", std::move(steps)},
            {"layers", Json::array()}};
  for (const Layer& layer : chart.layers) {
    if (std::any_of(layer.bytes.begin(), layer.bytes.end(), [](uint64_t b) { return b > 0; })) {
      json["layers"].push_back(ToJson(layer));
    }
  }
  return json;
}

// Rounded, since nobody reads microseconds there.
double Milli(double seconds) { return double(int64_t(seconds * 1000 + 0.5)) / 1000; }

Json ToJson(const v1::Operation& operation, int64_t begin_ms) {
  uint64_t host = 0, disk = 0;
  double wait = 0, gate = 0, drain = 0, move = 0;
  for (const auto& result : operation.results()) {
    if (result.already()) continue;
    host += result.host_bytes();
    disk += result.disk_bytes();
    wait = std::max(wait, result.wait_seconds());
    gate = std::max(gate, result.gate_seconds());
    drain = std::max(drain, result.drain_seconds());
    move = std::max(move, result.move_seconds());
  }
  return {{"id", operation.id()},
          {"kind", OperationKindName(operation.kind())},
          {"ok", operation.state() == v1::Operation::STATE_DONE},
          {"why", operation.failure().reason()},
          {"begin", MsOf(operation.begin_time()) - begin_ms},
          {"end", MsOf(operation.end_time()) - begin_ms},
          {"pids", Json(std::vector<int>(operation.pids().begin(), operation.pids().end()))},
          {"host", host >> 10},
          {"disk", disk >> 10},
          {"wait", Milli(wait)},
          {"gate", Milli(gate)},
          {"drain", Milli(drain)},
          {"move", Milli(move)}};
}

Json ToJson(const Recording& recording) {
  const int64_t begin = recording.begin_ms;
  Json json{{"name", recording.name},
            {"node", recording.start.node()},
            {"version", recording.start.daemon_version()},
            {"begin", begin},
            {"length", recording.end_ms - begin},
            {"phases", Json::array()},
            {"points", Json::array()},
            {"charts", Json::array()},
            {"operations", Json::array()},
            {"changes", Json::array()}};
  for (const Phase& phase : recording.Phases()) {
    json["phases"].push_back({{"name", phase.name},
                              {"job", phase.job},
                              {"begin", phase.begin_ms - begin},
                              {"end", phase.end_ms - begin}});
  }
  for (const v1::TimelineMark& mark : recording.marks) {
    if (mark.kind() != v1::TimelineMark::KIND_POINT) continue;
    json["points"].push_back({{"name", mark.name()}, {"ms", MsOf(mark.time()) - begin}});
  }
  for (const Chart& chart : ChartsOf(recording, kMostTimes)) {
    json["charts"].push_back(ToJson(chart, begin));
  }
  std::vector<const v1::Operation*> slowest;
  for (const auto& operation : recording.operations) slowest.push_back(&operation);
  std::stable_sort(slowest.begin(), slowest.end(),
                   [](auto* a, auto* b) { return SecondsOf(*a) > SecondsOf(*b); });
  slowest.resize(std::min(slowest.size(), kMostOperations));
  for (const auto* operation : slowest) json["operations"].push_back(ToJson(*operation, begin));
  for (const PhaseChange& change : PhaseChanges(recording)) {
    json["changes"].push_back({{"phase", change.phase},
                               {"tag", change.tag},
                               {"tier", change.tier},
                               {"times", change.times},
                               {"before", int64_t(change.before) >> 10},
                               {"after", int64_t(change.after) >> 10}});
  }
  return json;
}

}  // namespace

double SecondsOf(const v1::Operation& operation) {
  return double(MsOf(operation.end_time()) - MsOf(operation.begin_time())) / 1000;
}

std::string ReportJson(const Recordings& recordings) {
  Json json{{"schema_version", kSchemaVersion}, {"recordings", Json::array()}};
  for (const Recording& recording : recordings) json["recordings"].push_back(ToJson(recording));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace parkade::cli
