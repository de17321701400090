// Chrome's trace events: a track for each GPU, process and job, counters for bytes.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "cli/format.h"
#include "cli/report.h"

namespace parkade::cli {
namespace {

using Json = nlohmann::ordered_json;

// Tracks are "processes" of the format; a real one keeps its pid in its name.
class Tracks {
 public:
  explicit Tracks(std::ostream& out) : out_(out) {}

  int Of(const std::string& name) {
    const auto [at, is_new] = ids_.emplace(name, int(ids_.size()) + 1);
    if (is_new) {
      Add({{"ph", "M"}, {"name", "process_name"}, {"pid", at->second}, {"args", {{"name", name}}}});
    }
    return at->second;
  }
  void Add(const Json& event) {
    out_ << (first_ ? "" : ",\n") << event.dump(-1, ' ', false, Json::error_handler_t::replace);
    first_ = false;
  }

 private:
  std::ostream& out_;
  std::map<std::string, int> ids_;
  bool first_ = true;
};

void AddSlice(Tracks& tracks, int track, const std::string& name, double begin_us, double end_us,
              Json args = Json::object()) {
  tracks.Add({{"ph", "X"},
              {"name", name},
              {"pid", track},
              {"tid", 1},
              {"ts", begin_us},
              {"dur", std::max(end_us - begin_us, 1.0)},
              {"args", std::move(args)}});
}

// The phases that were measured, the last of them at the end: what came before is the daemon's own.
void AddOperation(const v1::Operation& operation, double origin_us, const std::string& prefix,
                  Tracks& tracks, std::map<int, std::pair<uint64_t, double>>& paused) {
  const double begin = double(MsOf(operation.begin_time())) * 1000 - origin_us;
  const double end = double(MsOf(operation.end_time())) * 1000 - origin_us;
  const std::string kind = OperationKindName(operation.kind());
  static uint64_t flow = 0;
  for (const auto& result : operation.results()) {
    const int track = tracks.Of(absl::StrCat(prefix, "process ", result.pid()));
    AddSlice(tracks, track, kind, begin, end,
             {{"operation", operation.id()},
              {"host_bytes", result.host_bytes()},
              {"disk_bytes", result.disk_bytes()},
              {"elided_bytes", result.elided_bytes()}});
    const std::pair<const char*, double> phases[] = {{"wait", result.wait_seconds()},
                                                     {"gate", result.gate_seconds()},
                                                     {"drain", result.drain_seconds()},
                                                     {"move", result.move_seconds()}};
    double measured = 0;
    for (const auto& [name, seconds] : phases) measured += seconds * 1e6;
    double at = std::max(begin, end - measured);
    for (const auto& [name, seconds] : phases) {
      const double until = std::min(end, at + seconds * 1e6);
      if (seconds > 0) AddSlice(tracks, track, name, at, until);
      at = until;
    }
    // An arrow from each pause to the resume that ends it.
    const bool out = result.state() == v1::PROCESS_STATE_PAUSED;
    if (out && !result.already()) {
      paused[result.pid()] = {++flow, end};
      tracks.Add({{"ph", "s"},
                  {"name", "paused"},
                  {"cat", "pause"},
                  {"id", flow},
                  {"pid", track},
                  {"tid", 1},
                  {"ts", std::max(begin, end - 1)}});
    } else if (const auto from = paused.find(result.pid()); !out && from != paused.end()) {
      tracks.Add({{"ph", "f"},
                  {"bp", "e"},
                  {"name", "paused"},
                  {"cat", "pause"},
                  {"id", from->second.first},
                  {"pid", track},
                  {"tid", 1},
                  {"ts", begin}});
      paused.erase(from);
    }
  }
  if (operation.results().empty()) {
    AddSlice(tracks, tracks.Of(absl::StrCat(prefix, "operations")), kind, begin, end,
             {{"operation", operation.id()}, {"failure", operation.failure().reason()}});
  }
}

void AddRecording(const Recording& recording, const std::string& prefix, Tracks& tracks) {
  const double origin_us = double(recording.begin_ms) * 1000;
  for (const Chart& chart : ChartsOf(recording, SIZE_MAX)) {
    const bool gpu = chart.kind == Chart::Kind::kGpu;
    const int track = tracks.Of(absl::StrCat(prefix, gpu ? "GPU " : "", chart.title));
    for (size_t i = 0; i < chart.ms.size(); ++i) {
      Json values = Json::object();
      for (const Layer& layer : chart.layers) {
        values[layer.process.empty() ? layer.tag : absl::StrCat(layer.process, " ", layer.tag)] =
            layer.bytes[i];
      }
      if (values.empty()) continue;
      tracks.Add({{"ph", "C"},
                  {"name", "bytes"},
                  {"pid", track},
                  {"ts", double(chart.ms[i]) * 1000 - origin_us},
                  {"args", std::move(values)}});
    }
  }
  for (const Phase& phase : recording.Phases()) {
    const int track =
        tracks.Of(absl::StrCat(prefix, "phases of ", phase.job.empty() ? "the node" : phase.job));
    AddSlice(tracks, track, phase.name, double(phase.begin_ms) * 1000 - origin_us,
             double(phase.end_ms) * 1000 - origin_us);
  }
  for (const auto& mark : recording.marks) {
    if (mark.kind() != v1::TimelineMark::KIND_POINT) continue;
    tracks.Add({{"ph", "i"},
                {"s", "g"},
                {"name", mark.name()},
                {"pid", 0},
                {"tid", 0},
                {"ts", double(MsOf(mark.time())) * 1000 - origin_us}});
  }
  std::map<int, std::pair<uint64_t, double>> paused;
  for (const auto& operation : recording.operations) {
    AddOperation(operation, origin_us, prefix, tracks, paused);
  }
}

}  // namespace

void WriteTrace(const Recordings& recordings, std::ostream& out) {
  out << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  Tracks tracks(out);
  for (const Recording& recording : recordings) {
    AddRecording(recording, recordings.size() == 1 ? "" : absl::StrCat(recording.name, ": "),
                 tracks);
  }
  out << "\n]}\n";
}

}  // namespace parkade::cli
