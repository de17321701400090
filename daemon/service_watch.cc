// The Watch call: events as they come, and progress while bytes move.
#include <map>

#include "common/deadline.h"
#include "daemon/service.h"
#include "daemon/service_tcp.h"
#include "daemon/service_text.h"
#include "daemon/status.h"
#include "daemon/status_grpc.h"

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
    const double rate =
        double(progress->done_bytes() - begun.bytes) / (double(now - begun.ns) / 1e9);
    progress->set_bytes_per_second(rate);
    if (progress->done_bytes() >= progress->total_bytes()) return;
    const double left = double(progress->total_bytes() - progress->done_bytes()) / rate;
    progress->mutable_time_left()->set_seconds(int64_t(left));
    progress->mutable_time_left()->set_nanos(int32_t((left - double(int64_t(left))) * 1e9));
  }

 private:
  struct Begun {
    uint64_t ns;
    uint64_t bytes;
  };
  std::map<int32_t, Begun> begun_;
};

}  // namespace

grpc::Status ControlService::Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                                   grpc::ServerWriter<v1::Event>* writer) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const Selector selector = Read(request->selector());
  // Registered before the first look: what changes in between is seen twice rather than never.
  const auto watcher = to_.events.Watch();
  if (watcher == nullptr) {
    return ToGrpc(Fail(absl::StatusCode::kResourceExhausted, "TOO_MANY_WATCHERS",
                       "64 watch this node already"));
  }
  Rates rates;
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
  if (!send_all(Event::Kind::kPresent, false)) return grpc::Status::OK;
  Deadline progress_at = Deadline::InMs(250);
  while (!context->IsCancelled() && !watcher->closed()) {
    const auto event = watcher->Next(progress_at);
    if (watcher->TakeLost() && !send_all(Event::Kind::kPresent, false)) break;
    if (event && !send(*event)) break;
    if (!progress_at.Passed()) continue;
    if (!send_all(Event::Kind::kProgress, true)) break;
    progress_at = Deadline::InMs(250);
  }
  return grpc::Status::OK;
}

}  // namespace parkade::daemon
