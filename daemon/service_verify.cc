// The call that has backups read.
#include "daemon/service.h"
#include "daemon/service_tcp.h"
#include "daemon/service_text.h"
#include "daemon/status_grpc.h"

namespace parkade::daemon {

grpc::Status ControlService::Verify(grpc::ServerContext* context, const v1::VerifyRequest* request,
                                    v1::VerifyResponse* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  auto selector = Read(request->selector(), {*caller, to_.groups});
  if (!selector.ok()) return ToGrpc(selector.status());
  const VerifyOrder order{std::move(*selector), request->allow_empty()};
  const auto ended = Perform(*context, *caller, OperationKind::kVerify, request->request_id(),
                             *request, [&node = to_.node, caller = *caller, order](Course& course) {
                               return node.Verify(caller, order, course);
                             });
  if (!ended.ok()) return ToGrpc(ended.status());
  response->set_operation_id(ended->origin.id);
  for (const Outcome& outcome : **ended->answer) Write(outcome, response->add_results());
  return grpc::Status::OK;
}

}  // namespace parkade::daemon
