// One function for each call of the API but Watch, which is in service_watch.cc.
#include "daemon/service.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "daemon/double_offload.h"
#include "daemon/host_memory.h"
#include "daemon/proc_file.h"
#include "daemon/service_tcp.h"
#include "daemon/service_text.h"
#include "daemon/status.h"
#include "daemon/status_grpc.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// Of /proc/<pid>/maps; large programs have some 5,000 lines.
constexpr size_t kMostMaps = 8 << 20;

// The same bytes for the same request: maps in order, what kind of request in front.
std::string Canonical(const google::protobuf::Message& request) {
  std::string text = request.GetTypeName();
  google::protobuf::io::StringOutputStream stream(&text);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  request.SerializeToCodedStream(&coded);
  return text;
}

}  // namespace

Deadline AnswerBy(const grpc::ServerContext& context) {
  using std::chrono::milliseconds;
  using std::chrono::system_clock;
  const auto deadline = context.deadline();
  if (deadline == system_clock::time_point::max()) return Deadline::Never();
  const auto left =
      std::chrono::duration_cast<milliseconds>(deadline - system_clock::now()) - milliseconds(100);
  return Deadline::InMs(left.count() > 0 ? uint64_t(left.count()) : 0);
}

grpc::Status ControlService::ListProcesses(grpc::ServerContext* context,
                                           const v1::ListProcessesRequest* request,
                                           v1::ListProcessesResponse* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const auto selector = Read(request->selector(), {*caller, to_.groups});
  if (!selector.ok()) return ToGrpc(selector.status());
  for (const auto& process : to_.registry.List(*caller, *selector)) {
    Write(process->View(), response->add_processes());
  }
  return grpc::Status::OK;
}

grpc::Status ControlService::GetProcess(grpc::ServerContext* context,
                                        const v1::GetProcessRequest* request,
                                        v1::GetProcessResponse* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const auto process = to_.registry.Find(*caller, request->pid());
  if (!process.ok()) return ToGrpc(process.status());
  const auto ledger = (*process)->Ledger();
  if (!ledger.ok()) return ToGrpc(ledger.status());
  Write((*process)->View(), response->mutable_process());
  WriteDetails(*ledger, response);
  const std::string maps = ReadProcFile(Cat("/proc/", request->pid(), "/maps"), kMostMaps);
  for (const std::string& sign : DoubleOffload(ledger->header, maps)) {
    response->mutable_process()->add_warnings(sign);
  }
  return grpc::Status::OK;
}

grpc::Status ControlService::GetNode(grpc::ServerContext* context, const v1::GetNodeRequest*,
                                     v1::GetNodeResponse* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  response->set_daemon_version(PARKADE_VERSION);
  response->set_gpu_source(to_.gpus.source());
  WriteGpus(*caller, response);
  const HostMemory memory = ReadHostMemory();
  response->set_host_total_bytes(memory.total);
  response->set_host_available_bytes(memory.available);
  for (const auto& entry : to_.budgets.Look()) Write(entry, response->add_budgets());
  std::map<std::string, Bytes> used;
  for (const auto& process : to_.registry.All()) {
    const auto scratch = process->scratch();
    if (scratch == nullptr) continue;
    // Of one that an earlier daemon made only the backup's size is known until it is used again.
    const ProcessView view = process->View();
    const Bytes backup = view.ledger ? view.ledger->disk_backup_bytes : 0;
    const auto stripes = scratch->stripes();
    // What a claimed directory has is not known before its next pause.
    used[scratch->base()] += std::max(scratch->bytes(), stripes.empty() ? backup : 0);
    for (const auto& stripe : stripes) used[stripe->base()] += stripe->bytes();
  }
  for (const BaseReport& report : ReportBases(to_.scratch.rules())) {
    Write(report, used[report.path], to_.scratch.RatesOf(report.path),
          response->add_scratch_bases());
  }
  return grpc::Status::OK;
}

absl::StatusOr<OperationView> ControlService::Perform(const grpc::ServerContext& context,
                                                      const Caller& caller, OperationKind kind,
                                                      const std::string& request_id,
                                                      const google::protobuf::Message& request,
                                                      Operations::Work work) {
  return to_.operations.Run({caller.Name(), kind, request_id, Canonical(request)},
                            AnswerBy(context), std::move(work),
                            [&context] { return context.IsCancelled(); });
}

void ControlService::Equip(PauseOrder& order) const {
  order.begin_behind = [&behinds = to_.behinds](const std::string& caller,
                                                const BehindOrder& behind) {
    return behinds.Begin(caller, behind);
  };
}

// Every transition: read, carried out under the caller's request id, written.
template <typename Request, typename Response, typename Order>
grpc::Status ControlService::Carry(const grpc::ServerContext& context, OperationKind kind,
                                   const Request& request, Response* response,
                                   absl::StatusOr<Outcomes> (NodeState::*carry_out)(const Caller&,
                                                                                    const Order&,
                                                                                    Course&)) {
  const auto caller = CallerOf(to_.authority, context);
  if (!caller.ok()) return ToGrpc(caller.status());
  auto order = Read(request, {*caller, to_.groups});
  if (!order.ok()) return ToGrpc(order.status());
  Equip(*order);
  if (request.dry_run()) {
    Write(to_.node.Foretell(*caller, *order), response->mutable_forecast());
    return grpc::Status::OK;
  }
  const auto ended =
      Perform(context, *caller, kind, request.request_id(), request,
              [&node = to_.node, carry_out, caller = *caller, order = *order](Course& course) {
                return (node.*carry_out)(caller, order, course);
              });
  if (!ended.ok()) return ToGrpc(ended.status());
  response->set_operation_id(ended->origin.id);
  for (const Outcome& outcome : **ended->answer) Write(outcome, response->add_results());
  return grpc::Status::OK;
}

grpc::Status ControlService::Pause(grpc::ServerContext* context, const v1::PauseRequest* request,
                                   v1::PauseResponse* response) {
  return Carry(*context, OperationKind::kPause, *request, response, &NodeState::Pause);
}

grpc::Status ControlService::Resume(grpc::ServerContext* context, const v1::ResumeRequest* request,
                                    v1::ResumeResponse* response) {
  return Carry(*context, OperationKind::kResume, *request, response, &NodeState::Resume);
}

grpc::Status ControlService::Handoff(grpc::ServerContext* context,
                                     const v1::HandoffRequest* request,
                                     v1::HandoffResponse* response) {
  return Carry(*context, OperationKind::kHandoff, *request, response, &NodeState::Handoff);
}

grpc::Status ControlService::WaitFree(grpc::ServerContext* context,
                                      const v1::WaitFreeRequest* request,
                                      v1::WaitFreeResponse* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const auto wait_ns = ReadNs(request->wait_timeout(), "wait_timeout");
  if (!wait_ns.ok()) return ToGrpc(wait_ns.status());
  if (request->bytes() == 0) {
    return ToGrpc(Fail(absl::StatusCode::kInvalidArgument, "BAD_SIZE", "bytes must not be 0"));
  }
  const Deadline wait = Deadline::InNs(*wait_ns), answer = AnswerBy(*context);
  const uint64_t begin_ns = MonotonicNs();
  const auto room = to_.node.WaitFree(request->gpu_uuid(), request->bytes(),
                                      wait.LeftNs() < answer.LeftNs() ? wait : answer,
                                      [context] { return context->IsCancelled(); });
  if (!room.ok()) return ToGrpc(room.status());
  response->set_free_bytes(*room->free);
  response->set_booked_bytes(room->booked);
  response->set_reserved_bytes(room->reserved);
  response->set_waited_seconds(double(MonotonicNs() - begin_ns) / 1e9);
  return grpc::Status::OK;
}

grpc::Status ControlService::CollectGarbage(grpc::ServerContext* context,
                                            const v1::CollectGarbageRequest* request,
                                            v1::CollectGarbageResponse* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  Sweep sweep;
  sweep.mode = request->dry_run() ? Sweep::Mode::kLook : Sweep::Mode::kRemove;
  sweep.concerns = [caller = *caller](uid_t uid) { return caller.MaySee(uid); };
  for (const SweptDirectory& swept : to_.scratch.SweepAll(sweep)) {
    Write(swept, response->add_entries());
  }
  return grpc::Status::OK;
}

}  // namespace parkade::daemon
