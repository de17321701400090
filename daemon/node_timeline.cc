// Adds what has changed, forgets the oldest, and reads it for one caller.
#include "daemon/node_timeline.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "daemon/printable.h"
#include "daemon/status.h"
#include "daemon/wall_clock.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using Kind = v1::TimelineSeries;
constexpr uint64_t kMsNs = 1'000'000;
constexpr size_t kBatch = 4096;  // points in a message

void SetTime(uint64_t ms, google::protobuf::Timestamp* out) {
  out->set_seconds(int64_t(ms / 1000));
  out->set_nanos(int32_t(ms % 1000 * 1'000'000));
}

uint64_t MsOf(const google::protobuf::Timestamp& time) {
  return uint64_t(time.seconds()) * 1000 + uint64_t(time.nanos()) / 1'000'000;
}

absl::Status Bad(std::string_view what) {
  return Fail(absl::StatusCode::kInvalidArgument, "BAD_REQUEST", what);
}

absl::Status CheckLabel(std::string_view name, const std::string& text) {
  if (text.size() <= 64 && Printable(text) == text) return absl::OkStatus();
  return Bad(Cat(name, " of a mark must be 64 printable bytes at most"));
}

void AddPoint(uint32_t series, uint64_t time_ms, uint64_t bytes, uint64_t* last_ms,
              v1::TimelinePoints* out) {
  out->add_series(series);
  out->add_time_ms(int64_t(time_ms - *last_ms));  // the first since 1970: last_ms is 0 then
  out->add_bytes(bytes);
  *last_ms = time_ms;
}

}  // namespace

void NodeTimeline::Append(uint32_t id, Series& series, uint64_t time_ms, Bytes bytes) {
  series.last = bytes;
  ++series.points;
  points_.push_back({time_ms, bytes, id});
  if (!sink_) return;
  v1::TimelineEntry entry;
  uint64_t last_ms = 0;
  AddPoint(id, time_ms, bytes, &last_ms, entry.mutable_points());
  Tell(std::move(entry));
}

void NodeTimeline::Set(const Key& key, const std::function<Series()>& make, uint64_t time_ms,
                       Bytes bytes, Bytes ignored) {
  const auto at = ids_.find(key);
  uint32_t id;
  if (at == ids_.end()) {
    if (bytes == 0 || series_.size() >= limits_.series) return;
    id = next_id_++;
    ids_.emplace(key, id);
    Series made = make();
    made.text.set_id(id);
    v1::TimelineEntry entry;
    *entry.mutable_series() = made.text;
    series_.emplace(id, std::move(made));
    Tell(std::move(entry));
  } else {
    id = at->second;
  }
  Series& series = series_.at(id);
  touched_.insert(id);
  const Bytes change = std::max(bytes, series.last) - std::min(bytes, series.last);
  if (at == ids_.end() || change > ignored) Append(id, series, time_ms, bytes);
}

void NodeTimeline::AddProcess(const ProcessSample& process, uint64_t time_ms) {
  const ProcessView& view = process.view;
  const int pid = view.identity.pid;
  const auto set = [&](Kind::Kind kind, const std::string& gpu, const std::string& tag, Bytes bytes,
                       Bytes ignored) {
    const auto make = [&] {
      Series series;
      series.uid = view.identity.uid;
      series.of_process = true;
      series.text.set_kind(kind);
      series.text.set_pid(pid);
      series.text.set_job(view.introduction.job);
      series.text.set_role(view.introduction.role);
      if (view.introduction.rank) series.text.set_rank(*view.introduction.rank);
      series.text.set_gpu_uuid(gpu);
      series.text.set_tag(tag);
      return series;
    };
    // Keys of one process and kind differ in GPU and tag.
    Set({pid, view.identity.start_ticks, int(kind), gpu, tag}, make, time_ms, bytes, ignored);
  };
  for (const TagBytes& part : process.parts) {
    const auto kind = part.place == wire::Place::kHost   ? Kind::KIND_HOST
                      : part.place == wire::Place::kDisk ? Kind::KIND_DISK
                                                         : Kind::KIND_HBM;
    set(kind, part.gpu_uuid, part.tag, part.bytes, 0);
  }
  if (view.ledger) {
    set(Kind::KIND_HOST_POOL, "", "", std::min(view.ledger->host_pool_bytes, kMostClaimed), 0);
  }
  set(Kind::KIND_HOST_RESIDENT, "", "", process.resident_bytes, 16_MiB);
}

void NodeTimeline::Add(const NodeSample& sample) {
  const MutexLock lock(mu_);
  const uint64_t time_ms = sample.time_ns / kMsNs;
  // Two threads look at the node; the later look has seen what the earlier one did.
  if (time_ms < last_ms_) return;
  last_ms_ = time_ms;
  if (begin_ms_ == 0) begin_ms_ = time_ms;
  touched_.clear();
  const auto of_node = [&](Kind::Kind kind, const std::string& gpu, const std::string& path,
                           Bytes capacity) {
    return [=] {
      Series series;
      series.text.set_kind(kind);
      series.text.set_gpu_uuid(gpu);
      series.text.set_path(Printable(path));
      series.text.set_capacity_bytes(capacity);
      return series;
    };
  };
  for (const GpuView& gpu : sample.gpus) {
    Set({0, 0, int(Kind::KIND_GPU_USED), gpu.uuid, ""},
        of_node(Kind::KIND_GPU_USED, gpu.uuid, "", gpu.total), time_ms,
        gpu.total - std::min(gpu.free, gpu.total), 1_MiB);
  }
  Set({0, 0, int(Kind::KIND_HOST_AVAILABLE), "", ""},
      of_node(Kind::KIND_HOST_AVAILABLE, "", "", sample.host.total), time_ms, sample.host.available,
      sample.host.total / 512);
  for (const BaseReport& base : sample.bases) {
    if (!base.usable.ok()) continue;
    Set({0, 0, int(Kind::KIND_DISK_FREE), "", base.path},
        of_node(Kind::KIND_DISK_FREE, "", base.path, 0), time_ms, base.free_bytes,
        base.free_bytes / 512);
  }
  for (const ProcessSample& process : sample.processes) AddProcess(process, time_ms);
  for (auto& [id, series] : series_) {
    if (series.of_process && series.last != 0 && !touched_.contains(id)) {
      Append(id, series, time_ms, 0);
    }
  }
  Forget();
}

void NodeTimeline::Forget() {
  while (points_.size() > limits_.points) {
    const Point& oldest = points_.front();
    Series& series = series_.at(oldest.series);
    series.before = oldest.bytes;
    --series.points;
    begin_ms_ = oldest.time_ms;
    points_.pop_front();
  }
  // Of what has ended and has no point left nothing is known any more.
  if (series_.size() < limits_.series / 2 && points_.size() < limits_.points) return;
  std::erase_if(ids_, [&](const auto& key) REQUIRES(mu_) {
    const auto at = series_.find(key.second);
    if (at->second.points != 0 || at->second.last != 0) return false;
    series_.erase(at);
    return true;
  });
}

void NodeTimeline::Add(const v1::Operation& operation) {
  const MutexLock lock(mu_);
  operation_bytes_ += operation.ByteSizeLong();
  operations_.push_back(operation);
  while (operation_bytes_ > limits_.operation_bytes) {
    operation_bytes_ -= operations_.front().ByteSizeLong();
    operations_.pop_front();
  }
  v1::TimelineEntry entry;
  *entry.mutable_operation() = operation;
  Tell(std::move(entry));
}

absl::StatusOr<v1::TimelineMark> NodeTimeline::Mark(const Caller& caller,
                                                    const v1::MarkRequest& request) {
  v1::TimelineMark mark;
  const auto kind = request.kind() == 0 ? v1::TimelineMark::KIND_PHASE : request.kind();
  if (!v1::TimelineMark::Kind_IsValid(kind)) return Bad(Cat("unknown kind of mark ", int(kind)));
  if (request.name().empty() && kind != v1::TimelineMark::KIND_END) {
    return Bad("a mark has a name");
  }
  for (const auto& [what, text] :
       {std::pair("the name", request.name()), std::pair("the job", request.job())}) {
    if (auto s = CheckLabel(what, text); !s.ok()) return s;
  }
  mark.set_kind(kind);
  mark.set_name(request.name());
  mark.set_job(request.job());
  mark.set_owner(caller.Name());
  const MutexLock lock(mu_);
  SetTime(WallClockNs() / kMsNs, mark.mutable_time());
  marks_.emplace_back(mark, caller.uid);
  if (marks_.size() > limits_.marks) marks_.pop_front();
  v1::TimelineEntry entry;
  *entry.mutable_mark() = mark;
  Tell(std::move(entry));
  return mark;
}

void NodeTimeline::Read(const Caller& caller, uint64_t since_ns, uint64_t until_ns,
                        const std::function<bool(const v1::TimelineEntry&)>& tell) const {
  const uint64_t since_ms = since_ns / kMsNs, until_ms = until_ns / kMsNs;
  std::vector<v1::TimelineEntry> entries;
  std::vector<Point> points;
  {
    const MutexLock lock(mu_);
    auto* start = entries.emplace_back().mutable_start();
    start->set_format(1);
    char host[65] = "";
    gethostname(host, sizeof host - 1);
    start->set_node(Printable(host));
    start->set_daemon_version(PARKADE_VERSION);
    SetTime(WallClockNs() / kMsNs, start->mutable_time());
    SetTime(std::max(begin_ms_, since_ms), start->mutable_begin());
    std::map<uint32_t, Bytes> before;
    for (const auto& [id, series] : series_) {
      if (series.of_process && !caller.MaySee(series.uid)) continue;
      before[id] = series.before;
      *entries.emplace_back().mutable_series() = series.text;
    }
    for (const Point& point : points_) {
      const auto at = before.find(point.series);
      if (at == before.end() || point.time_ms > until_ms) continue;
      if (point.time_ms < since_ms) {
        at->second = point.bytes;
      } else {
        points.push_back(point);
      }
    }
    const uint64_t begin_ms = std::max(begin_ms_, since_ms);
    std::vector<Point> first;
    for (const auto& [id, bytes] : before) {
      if (bytes != 0) first.push_back({begin_ms, bytes, id});
    }
    points.insert(points.begin(), first.begin(), first.end());
    for (const auto& [mark, uid] : marks_) {
      const bool own = caller.sees_all || mark.owner() == caller.Name();
      const uint64_t time_ms = MsOf(mark.time());
      if (!own || time_ms < since_ms || time_ms > until_ms) continue;
      *entries.emplace_back().mutable_mark() = mark;
    }
    for (const v1::Operation& operation : operations_) {
      const bool own = caller.sees_all || operation.caller() == caller.Name();
      if (!own || MsOf(operation.end_time()) < since_ms ||
          MsOf(operation.begin_time()) > until_ms) {
        continue;
      }
      *entries.emplace_back().mutable_operation() = operation;
    }
  }
  for (const v1::TimelineEntry& entry : entries) {
    if (!tell(entry)) return;
  }
  for (size_t i = 0; i < points.size();) {
    v1::TimelineEntry entry;
    uint64_t last_ms = 0;
    for (const size_t end = std::min(i + kBatch, points.size()); i < end; ++i) {
      AddPoint(points[i].series, points[i].time_ms, points[i].bytes, &last_ms,
               entry.mutable_points());
    }
    if (!tell(entry)) return;
  }
}

}  // namespace parkade::daemon
