// The five columns that viewers of memory profiles read.
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "cli/error.h"
#include "cli/report.h"

namespace parkade::cli {
namespace {

// As a field of its own, whatever is in it.
std::string Field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace

absl::Status WriteCsv(const Recording& recording, const std::string& of, std::ostream& out) {
  using Series = v1::TimelineSeries;
  const bool host = of == "host";
  std::vector<const Curve*> curves;
  for (const Curve& curve : recording.curves) {
    const bool node_host = curve.about.kind() == Series::KIND_HOST_AVAILABLE;
    const bool gpu = curve.about.kind() == Series::KIND_GPU_USED &&
                     (of == "gpus" || of == curve.about.gpu_uuid());
    if (host ? node_host : gpu) curves.push_back(&curve);
  }
  if (curves.empty()) {
    return MakeStatus(absl::StatusCode::kNotFound,
                      absl::StrCat("the recording has no figures of ", of), "NO_GPU");
  }
  std::map<int64_t, std::string> moments;
  for (const Curve* curve : curves) {
    for (const Curve::Point& point : curve->points) moments[point.ms];
  }
  for (const v1::TimelineMark& mark : recording.marks) {
    if (mark.kind() == v1::TimelineMark::KIND_END) continue;
    std::string& marker = moments[MsOf(mark.time())];
    absl::StrAppend(&marker, marker.empty() ? "" : "/", mark.name());
  }
  out << "time_s,used_gb,available_gb,percent,marker\n";
  for (const auto& [ms, marker] : moments) {
    double used = 0, capacity = 0;
    for (const Curve* curve : curves) {
      const auto all = double(curve->about.capacity_bytes());
      const auto value = double(curve->At(ms));
      used += host ? all - value : value;
      capacity += all;
    }
    out << absl::StreamFormat("%.3f,%.6f,%.6f,%.2f,%s\n", double(ms - recording.begin_ms) / 1000,
                              used / 1e9, (capacity - used) / 1e9,
                              capacity > 0 ? used / capacity * 100 : 0, Field(marker));
  }
  return absl::OkStatus();
}

}  // namespace parkade::cli
