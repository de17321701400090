// The calls about operations, and what they say of one.
#include <algorithm>

#include "daemon/service.h"
#include "daemon/service_tcp.h"
#include "daemon/service_text.h"
#include "daemon/status.h"
#include "daemon/status_grpc.h"

namespace parkade::daemon {
namespace {

grpc::Status AnswerWith(const absl::StatusOr<OperationView>& view, v1::Operation* response) {
  if (!view.ok()) return ToGrpc(view.status());
  Write(*view, response);
  return grpc::Status::OK;
}

}  // namespace

grpc::Status ControlService::GetOperation(grpc::ServerContext* context,
                                          const v1::GetOperationRequest* request,
                                          v1::Operation* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const Operations::Name name{request->id(), request->request_id()};
  return AnswerWith(to_.operations.Wait(*caller, name, Deadline::InMs(0)), response);
}

grpc::Status ControlService::WaitOperation(grpc::ServerContext* context,
                                           const v1::WaitOperationRequest* request,
                                           v1::Operation* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const Operations::Name name{request->id(), request->request_id()};
  return AnswerWith(to_.operations.Wait(*caller, name, AnswerBy(*context)), response);
}

grpc::Status ControlService::CancelOperation(grpc::ServerContext* context,
                                             const v1::CancelOperationRequest* request,
                                             v1::Operation* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const Operations::Name name{request->id(), request->request_id()};
  return AnswerWith(to_.operations.Cancel(*caller, name, AnswerBy(*context)), response);
}

grpc::Status ControlService::ListOperations(grpc::ServerContext* context,
                                            const v1::ListOperationsRequest* request,
                                            v1::ListOperationsResponse* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  for (const OperationView& view : to_.operations.List(*caller)) {
    if (request->ended() || !view.answer) Write(view, response->add_operations());
  }
  return grpc::Status::OK;
}

void Write(const OperationView& in, v1::Operation* out) {
  out->set_id(in.origin.id);
  out->set_request_id(in.origin.request_id);
  out->set_caller(in.origin.caller);
  out->set_kind(v1::Operation::Kind(in.kind));  // the same numbers, which service_text_test holds
  out->set_cancel_requested(in.cancelled);
  out->mutable_pids()->Add(in.pids.begin(), in.pids.end());
  WriteTime(in.origin.begun_ns, out->mutable_begin_time());
  if (!in.answer) {
    out->set_state(v1::Operation::STATE_RUNNING);
    for (const GpuWait& wait : in.waits) Write(wait, out->add_waiting());
    if (!in.progress) return;
    auto* progress = out->mutable_progress();
    progress->set_done_bytes(in.progress->done);
    progress->set_total_bytes(in.progress->total);
    WriteRate(in.progress->bytes_per_second, progress);
    return;
  }
  WriteTime(in.ended_ns, out->mutable_end_time());
  if (in.answer->ok()) {
    out->set_state(v1::Operation::STATE_DONE);
    // What was reserved is no process: GetNode has it.
    if (in.kind == OperationKind::kReserve) return;
    for (const Outcome& outcome : **in.answer) Write(outcome, out->add_results());
    return;
  }
  out->set_state(v1::Operation::STATE_FAILED);
  for (const Outcome& outcome : in.report) Write(outcome, out->add_results());
  Write(in.answer->status(), out->mutable_failure());
}

void Write(const absl::Status& in, v1::Failure* out) {
  out->set_code(int32_t(in.code()));
  out->set_reason(ReasonOf(in));
  out->set_message(MessageOf(in));
  for (const auto& [name, value] : MetadataOf(in)) (*out->mutable_metadata())[name] = value;
}

void WriteTime(uint64_t wall_clock_ns, google::protobuf::Timestamp* out) {
  out->set_seconds(int64_t(wall_clock_ns / 1'000'000'000));
  out->set_nanos(int32_t(wall_clock_ns % 1'000'000'000));
}

void WriteRate(double bytes_per_second, v1::Progress* out) {
  if (bytes_per_second <= 0) return;
  out->set_bytes_per_second(bytes_per_second);
  if (out->done_bytes() >= out->total_bytes()) return;
  const double left = double(out->total_bytes() - out->done_bytes()) / bytes_per_second;
  // A rate close to nothing: longer than any field holds.
  const double seconds = std::min(left, 1e9);
  out->mutable_time_left()->set_seconds(int64_t(seconds));
  out->mutable_time_left()->set_nanos(int32_t((seconds - double(int64_t(seconds))) * 1e9));
}

}  // namespace parkade::daemon
