// The Watch call: events as they come, and progress while bytes move.
#include "daemon/service.h"
#include "daemon/service_text.h"
#include "daemon/status.h"
#include "daemon/status_grpc.h"

namespace parkade::daemon {
namespace {

bool Moves(const ProcessView& view) {
  using wire::ProcessState;
  return view.state == ProcessState::kEvicting || view.state == ProcessState::kRestoring;
}

}  // namespace

grpc::Status ControlService::Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                                   grpc::ServerWriter<v1::Event>* writer) {
  const auto caller = to_.authority.CallerOf(context->peer());
  if (!caller.ok()) return ToGrpc(caller.status());
  const Selector selector = Read(request->selector());
  // Registered before the first look: what changes in between is seen twice rather than never.
  const auto watcher = to_.events.Watch();
  if (watcher == nullptr) {
    return ToGrpc(Fail(absl::StatusCode::kResourceExhausted, "TOO_MANY_WATCHERS",
                       "64 watch this node already"));
  }
  const auto send = [&](const Event& event) {
    if (!caller->MaySee(event.process.identity) || !Matches(selector, event.process)) return true;
    v1::Event out;
    Write(event, &out);
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
