// The calls about the timeline: marks, and all of it as a stream.
#include "daemon/service.h"
#include "daemon/service_tcp.h"
#include "daemon/status.h"
#include "daemon/status_grpc.h"

namespace parkade::daemon {
namespace {

uint64_t NsOf(const google::protobuf::Timestamp& time) {
  return time.seconds() < 0 ? 0 : uint64_t(time.seconds()) * 1'000'000'000 + uint64_t(time.nanos());
}

}  // namespace

grpc::Status ControlService::Mark(grpc::ServerContext* context, const v1::MarkRequest* request,
                                  v1::MarkResponse* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  // So that what there was when one phase ended and the next began is known to the moment.
  to_.timeline.Add(ReadNode(to_.registry, to_.gpus, to_.scratch.rules()));
  const auto mark = to_.timeline.Mark(*caller, *request);
  if (!mark.ok()) return ToGrpc(mark.status());
  *response->mutable_mark() = *mark;
  return grpc::Status::OK;
}

grpc::Status ControlService::GetTimeline(grpc::ServerContext* context,
                                         const v1::GetTimelineRequest* request,
                                         grpc::ServerWriter<v1::TimelineEntry>* writer) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const uint64_t since = NsOf(request->since());
  const uint64_t until = request->has_until() ? NsOf(request->until()) : UINT64_MAX;
  if (until < since) {
    return ToGrpc(Fail(absl::StatusCode::kInvalidArgument, "BAD_REQUEST", "until is before since"));
  }
  // What has just happened is part of the answer.
  to_.timeline.Add(ReadNode(to_.registry, to_.gpus, to_.scratch.rules()));
  to_.timeline.Read(*caller, since, until, [&](const v1::TimelineEntry& entry) {
    return !context->IsCancelled() && writer->Write(entry);
  });
  return grpc::Status::OK;
}

}  // namespace parkade::daemon
