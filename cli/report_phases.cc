// What phases did to the bytes, what a recording is without the others, and how recordings differ.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "cli/format.h"
#include "cli/report.h"

namespace parkade::cli {
namespace {

using Series = v1::TimelineSeries;

const char* TierOf(Series::Kind kind) {
  switch (kind) {
    case Series::KIND_HBM:
      return "gpu";
    case Series::KIND_HOST:
      return "host";
    case Series::KIND_DISK:
      return "disk";
    default:
      return nullptr;
  }
}

bool Concerns(const Phase& phase, const Curve& curve) {
  return phase.job.empty() || phase.job == curve.about.job();
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Figures of the operations of one kind that were done.
struct Summary {
  size_t count = 0;
  std::vector<double> seconds;
  uint64_t bytes = 0;
  double move_seconds = 0;

  Summary(const Recording& recording, v1::Operation::Kind kind) {
    for (const auto& operation : recording.operations) {
      if (operation.kind() != kind || operation.state() != v1::Operation::STATE_DONE) continue;
      ++count;
      seconds.push_back(SecondsOf(operation));
      double longest = 0;
      for (const auto& result : operation.results()) {
        if (result.already()) continue;
        bytes += result.host_bytes() + result.disk_bytes();
        longest = std::max(longest, result.move_seconds());
      }
      move_seconds += longest;
    }
  }
};

}  // namespace

std::vector<PhaseChange> PhaseChanges(const Recording& recording) {
  std::map<std::tuple<std::string, std::string, std::string>, PhaseChange> changes;
  std::map<std::string, size_t> times;
  for (const Phase& phase : recording.Phases()) {
    ++times[phase.name];
    for (const Curve& curve : recording.curves) {
      const char* tier = TierOf(curve.about.kind());
      if (tier == nullptr || !Concerns(phase, curve)) continue;
      PhaseChange& change = changes[{phase.name, curve.about.tag(), tier}];
      change.before += double(curve.At(phase.begin_ms));
      change.after += double(curve.At(phase.end_ms));
    }
  }
  std::vector<PhaseChange> all;
  for (auto& [key, change] : changes) {
    std::tie(change.phase, change.tag, change.tier) = key;
    change.times = times[change.phase];
    change.before /= double(change.times);
    change.after /= double(change.times);
    if (change.before != 0 || change.after != 0) all.push_back(change);
  }
  return all;
}

bool KeepPhase(const std::string& name, Recording& recording) {
  std::vector<Phase> kept;
  for (const Phase& phase : recording.Phases()) {
    if (phase.name == name) kept.push_back(phase);
  }
  if (kept.empty()) return false;
  const auto inside = [&kept](int64_t begin, int64_t end) {
    return std::any_of(kept.begin(), kept.end(), [&](const Phase& phase) {
      return begin <= phase.end_ms && end >= phase.begin_ms;
    });
  };
  for (Curve& curve : recording.curves) {
    // What it was when each began stays known.
    std::vector<Curve::Point> points;
    for (const Phase& phase : kept) {
      points.push_back({phase.begin_ms, curve.At(phase.begin_ms)});
      for (const auto& point : curve.points) {
        if (point.ms > phase.begin_ms && point.ms <= phase.end_ms) points.push_back(point);
      }
    }
    curve.points = std::move(points);
  }
  std::erase_if(recording.operations, [&](const v1::Operation& operation) {
    return !inside(MsOf(operation.begin_time()), MsOf(operation.end_time()));
  });
  std::erase_if(recording.marks, [&](const v1::TimelineMark& mark) {
    return !inside(MsOf(mark.time()), MsOf(mark.time()));
  });
  recording.begin_ms = kept.front().begin_ms;
  recording.end_ms = kept.back().end_ms;
  return true;
}

Table CompareTable(const Recordings& recordings) {
  Table table;
  table.AddColumn("FIGURE");
  for (const Recording& recording : recordings) {
    table.AddColumn(Printable(recording.name), Table::Align::kRight);
  }
  const auto add = [&](const std::string& name, auto value_of) {
    std::vector<Table::Cell> row{name};
    for (const Recording& recording : recordings) row.push_back(value_of(recording));
    table.AddRow(std::move(row));
  };
  add("length",
      [](const Recording& r) { return FormatSeconds(double(r.end_ms - r.begin_ms) / 1000); });
  for (const auto kind :
       {v1::Operation::KIND_PAUSE, v1::Operation::KIND_RESUME, v1::Operation::KIND_HANDOFF}) {
    const std::string name = OperationKindName(kind);
    add(absl::StrCat(name, "s"),
        [&](const Recording& r) { return absl::StrCat(Summary(r, kind).count); });
    add(absl::StrCat(name, ", median"), [&](const Recording& r) {
      const Summary summary(r, kind);
      return summary.count == 0 ? std::string("-") : FormatSeconds(Median(summary.seconds));
    });
    add(absl::StrCat(name, ", bytes moved"),
        [&](const Recording& r) { return FormatBytes(Summary(r, kind).bytes); });
    add(absl::StrCat(name, ", rate"), [&](const Recording& r) {
      const Summary summary(r, kind);
      return FormatRate(summary.bytes, summary.move_seconds);
    });
  }
  add("most HBM of a GPU", [](const Recording& r) {
    uint64_t most = 0;
    for (const Curve& curve : r.curves) {
      if (curve.about.kind() == Series::KIND_GPU_USED)
        most = std::max(most, curve.Most(r.begin_ms, r.end_ms));
    }
    return FormatBytes(most);
  });
  add("failed operations", [](const Recording& r) {
    return absl::StrCat(std::count_if(r.operations.begin(), r.operations.end(), [](const auto& o) {
      return o.state() == v1::Operation::STATE_FAILED;
    }));
  });
  return table;
}

}  // namespace parkade::cli
