// Reads messages, each after its length, and joins their points.
#include "cli/recording.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <ostream>
#include <set>

#include "absl/strings/str_cat.h"
#include "cli/error.h"
#include "common/fd.h"

namespace parkade::cli {

int64_t MsOf(const google::protobuf::Timestamp& time) {
  return time.seconds() * 1000 + time.nanos() / 1'000'000;
}

uint64_t Curve::At(int64_t ms) const {
  const auto after = std::upper_bound(points.begin(), points.end(), ms,
                                      [](int64_t at, const Point& p) { return at < p.ms; });
  return after == points.begin() ? 0 : std::prev(after)->bytes;
}

uint64_t Curve::Most(int64_t begin, int64_t end) const {
  uint64_t most = At(begin);
  auto at = std::lower_bound(points.begin(), points.end(), begin,
                             [](const Point& p, int64_t ms) { return p.ms < ms; });
  for (; at != points.end() && at->ms <= end; ++at) most = std::max(most, at->bytes);
  return most;
}

std::vector<Phase> Recording::Phases() const {
  std::vector<Phase> phases;
  std::map<std::string, size_t> open;  // by job
  for (const v1::TimelineMark& mark : marks) {
    if (mark.kind() == v1::TimelineMark::KIND_POINT) continue;
    const int64_t ms = MsOf(mark.time());
    if (const auto at = open.find(mark.job()); at != open.end()) {
      phases[at->second].end_ms = ms;
      open.erase(at);
    }
    if (mark.kind() != v1::TimelineMark::KIND_PHASE) continue;
    open[mark.job()] = phases.size();
    phases.push_back({mark.name(), mark.job(), ms, end_ms});
  }
  return phases;
}

std::vector<std::string> Recording::Gpus() const {
  std::set<std::string> uuids;
  for (const Curve& curve : curves) {
    if (!curve.about.gpu_uuid().empty()) uuids.insert(curve.about.gpu_uuid());
  }
  return {uuids.begin(), uuids.end()};
}

bool RecordingReader::Add(const v1::TimelineEntry& entry) {
  switch (entry.what_case()) {
    case v1::TimelineEntry::kStart:
      if (entry.start().format() != 1) return false;
      if (all_.start.format() == 0) all_.start = entry.start();
      by_id_.clear();
      return true;
    case v1::TimelineEntry::kSeries:
      by_id_[entry.series().id()] = all_.curves.size();
      all_.curves.push_back({entry.series(), {}});
      return all_.start.format() != 0;
    case v1::TimelineEntry::kPoints: {
      const v1::TimelinePoints& points = entry.points();
      if (points.time_ms_size() != points.series_size() ||
          points.bytes_size() != points.series_size()) {
        return false;
      }
      int64_t ms = 0;
      for (int i = 0; i < points.series_size(); ++i) {
        ms += points.time_ms(i);
        const auto at = by_id_.find(points.series(i));
        if (at == by_id_.end()) return false;
        all_.curves[at->second].points.push_back({ms, points.bytes(i)});
      }
      return true;
    }
    case v1::TimelineEntry::kOperation:
      all_.operations.push_back(entry.operation());
      return true;
    case v1::TimelineEntry::kMark:
      all_.marks.push_back(entry.mark());
      return true;
    case v1::TimelineEntry::WHAT_NOT_SET:
      return true;  // of a later version
  }
  return true;
}

Recording RecordingReader::Finish(std::string name) {
  all_.name = std::move(name);
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  const auto widen = [&](int64_t from, int64_t to) {
    begin = std::min(begin, from);
    end = std::max(end, to);
  };
  for (Curve& curve : all_.curves) {
    std::stable_sort(curve.points.begin(), curve.points.end(),
                     [](const auto& a, const auto& b) { return a.ms < b.ms; });
    if (!curve.points.empty()) widen(curve.points.front().ms, curve.points.back().ms);
  }
  for (const auto& operation : all_.operations) {
    widen(MsOf(operation.begin_time()), MsOf(operation.end_time()));
  }
  for (const auto& mark : all_.marks) widen(MsOf(mark.time()), MsOf(mark.time()));
  const int64_t made = MsOf(all_.start.time());
  all_.begin_ms = std::min(begin, std::max(made, end));
  all_.end_ms = std::max(end, made);
  std::stable_sort(
      all_.operations.begin(), all_.operations.end(),
      [](const auto& a, const auto& b) { return MsOf(a.begin_time()) < MsOf(b.begin_time()); });
  std::stable_sort(all_.marks.begin(), all_.marks.end(),
                   [](const auto& a, const auto& b) { return MsOf(a.time()) < MsOf(b.time()); });
  return std::move(all_);
}

absl::StatusOr<Recording> ReadRecording(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return MakeStatus(
        errno == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kPermissionDenied,
        absl::StrCat("cannot read ", path, ": ", strerror(errno)), "NO_FILE");
  }
  const auto strange = [&path] {
    return MakeStatus(
        absl::StatusCode::kDataLoss,
        absl::StrCat(path, " is no recording of a timeline, or one of a later version"),
        "BAD_RECORDING");
  };
  google::protobuf::io::FileInputStream stream(file.get());
  RecordingReader reader;
  bool clean_end = false, any = false;
  for (;;) {
    v1::TimelineEntry entry;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(&entry, &stream, &clean_end)) {
      break;  // its end, or a message that its writer did not finish
    }
    if (!reader.Add(entry)) return strange();
    any |= entry.has_start();
  }
  if (!any || stream.GetErrno() != 0) return strange();
  return reader.Finish(path);
}

void WriteEntry(const v1::TimelineEntry& entry, std::ostream& out) {
  google::protobuf::util::SerializeDelimitedToOstream(entry, &out);
}

}  // namespace parkade::cli
