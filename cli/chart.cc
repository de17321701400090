// Picks the moments and lays the layers out.
#include "cli/chart.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace parkade::cli {
namespace {

std::string ProcessName(const v1::TimelineSeries& series) {
  std::string labels;
  for (const std::string& label : {series.job(), series.role()}) {
    if (!label.empty()) absl::StrAppend(&labels, labels.empty() ? "" : "/", label);
  }
  if (series.has_rank()) absl::StrAppend(&labels, labels.empty() ? "rank " : "/", series.rank());
  return absl::StrCat(series.pid(), labels.empty() ? "" : " ", labels);
}

// The moments at which any of the curves changes, thinned.
std::vector<int64_t> Moments(const std::vector<const Curve*>& curves, int64_t begin, int64_t end,
                             size_t most) {
  struct Change {
    int64_t ms;
    int64_t by;
  };
  std::vector<Change> changes;
  for (const Curve* curve : curves) {
    uint64_t before = 0;
    for (const Curve::Point& point : curve->points) {
      changes.push_back({point.ms, int64_t(point.bytes) - int64_t(before)});
      before = point.bytes;
    }
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.ms < b.ms; });
  // The height of the stack after each moment.
  std::vector<std::pair<int64_t, int64_t>> heights;
  int64_t height = 0;
  for (const Change& change : changes) {
    height += change.by;
    if (heights.empty() || heights.back().first != change.ms) heights.emplace_back(change.ms, 0);
    heights.back().second = height;
  }
  std::vector<int64_t> moments{begin};
  const auto add = [&moments](int64_t ms) {
    if (ms > moments.back()) moments.push_back(ms);
  };
  if (heights.size() + 2 <= most) {
    for (const auto& [ms, unused] : heights) add(ms);
  } else {
    // Three of each stretch: the highest, the lowest and the last.
    const int64_t stretch = (end - begin) / int64_t(most / 3) + 1;
    for (size_t i = 0; i < heights.size();) {
      const int64_t until = heights[i].first - (heights[i].first - begin) % stretch + stretch;
      size_t highest = i, lowest = i, last = i;
      for (; i < heights.size() && heights[i].first < until; last = i++) {
        if (heights[i].second > heights[highest].second) highest = i;
        if (heights[i].second < heights[lowest].second) lowest = i;
      }
      for (const size_t at : {std::min(highest, lowest), std::max(highest, lowest), last}) {
        add(heights[at].first);
      }
    }
  }
  add(end);
  return moments;
}

Chart MakeChart(Chart::Kind kind, std::string title, const std::vector<const Curve*>& curves,
                const Curve* used, const Recording& recording, size_t most) {
  Chart chart{kind, std::move(title), 0, {}, {}};
  auto all = curves;
  if (used != nullptr) {
    all.push_back(used);
    chart.capacity = used->about.capacity_bytes();
  }
  chart.ms = Moments(all, recording.begin_ms, recording.end_ms, most);
  std::map<std::pair<std::string, std::string>, Layer> layers;
  for (const Curve* curve : curves) {
    const std::string process = ProcessName(curve->about);
    Layer& layer = layers[{process, curve->about.tag()}];
    layer.process = process;
    layer.tag = curve->about.tag();
    layer.bytes.resize(chart.ms.size());
    for (size_t i = 0; i < chart.ms.size(); ++i) layer.bytes[i] += curve->At(chart.ms[i]);
  }
  for (auto& [key, layer] : layers) chart.layers.push_back(std::move(layer));
  if (used == nullptr) return chart;
  Layer other{"", kOther, std::vector<uint64_t>(chart.ms.size())};
  for (size_t i = 0; i < chart.ms.size(); ++i) {
    const uint64_t in_all = used->At(chart.ms[i]);
    other.bytes[i] = in_all - std::min(in_all, chart.TotalAt(i));
  }
  chart.layers.insert(chart.layers.begin(), std::move(other));
  return chart;
}

}  // namespace

uint64_t Chart::TotalAt(size_t i) const {
  uint64_t total = 0;
  for (const Layer& layer : layers) total += layer.bytes[i];
  return total;
}

std::vector<Chart> ChartsOf(const Recording& recording, size_t most_times) {
  using Series = v1::TimelineSeries;
  std::map<std::string, std::vector<const Curve*>> hbm;
  std::map<std::string, const Curve*> used;
  std::vector<const Curve*> host, disk;
  for (const Curve& curve : recording.curves) {
    switch (curve.about.kind()) {
      case Series::KIND_HBM:
        hbm[curve.about.gpu_uuid()].push_back(&curve);
        break;
      case Series::KIND_GPU_USED:
        used[curve.about.gpu_uuid()] = &curve;
        break;
      case Series::KIND_HOST:
        host.push_back(&curve);
        break;
      case Series::KIND_DISK:
        disk.push_back(&curve);
        break;
      default:
        break;
    }
  }
  std::vector<Chart> charts;
  for (const std::string& gpu : recording.Gpus()) {
    const auto at = used.find(gpu);
    charts.push_back(MakeChart(Chart::Kind::kGpu, gpu, hbm[gpu],
                               at == used.end() ? nullptr : at->second, recording, most_times));
  }
  charts.push_back(
      MakeChart(Chart::Kind::kHost, "Host memory", host, nullptr, recording, most_times));
  charts.push_back(MakeChart(Chart::Kind::kDisk, "Disk", disk, nullptr, recording, most_times));
  return charts;
}

}  // namespace parkade::cli
