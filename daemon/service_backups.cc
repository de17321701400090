// The calls that have backups of paused processes read, or moved.
#include "daemon/service.h"
#include "daemon/service_tcp.h"
#include "daemon/service_text.h"
#include "daemon/status_grpc.h"

namespace parkade::daemon {

template <typename Request, typename Response, typename Order>
grpc::Status ControlService::CarryBeside(
    const grpc::ServerContext& context, OperationKind kind, const Request& request,
    Response* response,
    absl::StatusOr<Outcomes> (NodeState::*carry_out)(const Caller&, const Order&, Course&)) {
  const auto caller = CallerOf(to_.authority, context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const auto order = Read(request, Asker{*caller, to_.groups});
  if (!order.ok()) return ToGrpc(order.status());
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

grpc::Status ControlService::Verify(grpc::ServerContext* context, const v1::VerifyRequest* request,
                                    v1::VerifyResponse* response) {
  return CarryBeside(*context, OperationKind::kVerify, *request, response, &NodeState::Verify);
}

grpc::Status ControlService::Prefetch(grpc::ServerContext* context,
                                      const v1::PrefetchRequest* request,
                                      v1::PrefetchResponse* response) {
  return CarryBeside(*context, OperationKind::kPrefetch, *request, response, &NodeState::Prefetch);
}

}  // namespace parkade::daemon
