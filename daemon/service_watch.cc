// The Watch call: events as they come, and progress and operations every 250 ms.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/deadline.h"
#include "daemon/service.h"
#include "daemon/service_tcp.h"
#include "daemon/service_text.h"
#include "daemon/status.h"
#include "daemon/status_grpc.h"
#include "daemon/wall_clock.h"

namespace parkade::daemon {
namespace {

bool Moves(const ProcessView& view) {
  using wire::ProcessState;
  return view.state == ProcessState::kEvicting || view.state == ProcessState::kRestoring;
}

// Bytes per second of what moves, since this watcher first saw it move.
class Rates {
 public:
  void Fill(v1::Event* event) {
    const auto& process = event->process();
    if (!process.has_progress()) {
      begun_.erase(process.pid());
      return;
    }
    auto* progress = event->mutable_process()->mutable_progress();
    const uint64_t now = MonotonicNs();
    const auto [at, first] = begun_.emplace(process.pid(), Begun{now, progress->done_bytes()});
    const Begun& begun = at->second;
    if (first || progress->done_bytes() <= begun.bytes) return;
    const double seconds = double(now - begun.ns) / 1e9;
    WriteRate(double(progress->done_bytes() - begun.bytes) / seconds, progress);
  }

 private:
  struct Begun {
    uint64_t ns;
    uint64_t bytes;
  };
  std::map<int32_t, Begun> begun_;
};

// Which operations there is something to tell of: those that run, and once those that have ended.
class OperationNews {
 public:
  // Of all that there are now. What ends between two looks may be told of twice rather than never.
  std::vector<OperationView> Since(std::vector<OperationView> all) {
    const uint64_t now_ns = WallClockNs();
    std::erase_if(all, [&](const OperationView& view) {
      return view.answer && view.ended_ns < looked_ns_ && !IsKnown(view);
    });
    looked_ns_ = now_ns;
    return all;
  }
  bool IsKnown(const OperationView& view) const { return running_.contains(view.origin.id); }
  void Told(const OperationView& view) {
    if (view.answer) {
      running_.erase(view.origin.id);
    } else {
      running_.insert(view.origin.id);
    }
  }

 private:
  uint64_t looked_ns_ = WallClockNs();
  std::set<std::string> running_;
};

bool ConcernsAny(const OperationView& view, const std::set<int>& pids) {
  return std::any_of(view.pids.begin(), view.pids.end(),
                     [&](int pid) { return pids.contains(pid); });
}

}  // namespace

grpc::Status ControlService::Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                                   grpc::ServerWriter<v1::Event>* writer) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const auto read = Read(request->selector(), {*caller, to_.groups});
  if (!read.ok()) return ToGrpc(read.status());
  const Selector& selector = *read;
  // Registered before the first look: what changes in between is seen twice rather than never.
  const auto watcher = to_.events.Watch();
  if (watcher == nullptr) {
    return ToGrpc(Fail(absl::StatusCode::kResourceExhausted, "TOO_MANY_WATCHERS",
                       "64 watch this node already"));
  }
  Rates rates;
  OperationNews news;
  const auto send = [&](const Event& event) {
    if (!caller->MaySee(event.process.identity) || !Matches(selector, event.process)) return true;
    v1::Event out;
    Write(event, &out);
    rates.Fill(&out);
    return writer->Write(out);
  };
  const auto send_all = [&](Event::Kind kind, bool moving_only) {
    for (const auto& process : to_.registry.List(*caller, selector)) {
      ProcessView view = process->View();
      if (moving_only && !Moves(view)) continue;
      if (!send(MakeEvent(kind, std::move(view)))) return false;
    }
    return true;
  };
  const auto send_operations = [&] {
    if (!request->operations()) return true;
    std::set<int> pids;
    for (const auto& process : to_.registry.List(*caller, selector)) pids.insert(process->pid());
    for (const OperationView& view : news.Since(to_.operations.List(*caller))) {
      if (!news.IsKnown(view) && !selector.empty() && !ConcernsAny(view, pids)) continue;
      news.Told(view);
      v1::Event out;
      out.set_kind(v1::Event::KIND_OPERATION);
      WriteTime(WallClockNs(), out.mutable_time());
      Write(view, out.mutable_operation());
      if (!writer->Write(out)) return false;
    }
    return true;
  };
  if (!send_all(Event::Kind::kPresent, false)) return grpc::Status::OK;
  Deadline progress_at = Deadline::InMs(250);
  while (!context->IsCancelled() && !watcher->closed()) {
    const auto event = watcher->Next(progress_at);
    if (watcher->TakeLost() && !send_all(Event::Kind::kPresent, false)) break;
    if (event && !send(*event)) break;
    if (!progress_at.Passed()) continue;
    if (!send_all(Event::Kind::kProgress, true) || !send_operations()) break;
    progress_at = Deadline::InMs(250);
  }
  return grpc::Status::OK;
}

}  // namespace parkade::daemon
