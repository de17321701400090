// One call over a channel that never leaves the process.
#include "daemon/service_health.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>

#include "proto/control.grpc.pb.h"

namespace parkade::daemon {

bool ServerAnswers(grpc::Server& server, Deadline by) {
  const auto stub = v1::Control::NewStub(server.InProcessChannel({}));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(by.LeftMs()));
  v1::ListProcessesResponse response;
  const grpc::Status answer = stub->ListProcesses(&context, {}, &response);
  return answer.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED &&
         answer.error_code() != grpc::StatusCode::UNAVAILABLE;
}

}  // namespace parkade::daemon
