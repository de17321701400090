// Says how many processes a daemon has: a client of the control API as others write theirs.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <string>

#include "proto/control.grpc.pb.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto channel =
      grpc::CreateChannel("unix:" + std::string(argv[1]), grpc::InsecureChannelCredentials());
  const auto stub = parkade::v1::Control::NewStub(channel);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  parkade::v1::ListProcessesResponse response;
  const grpc::Status status = stub->ListProcesses(&context, {}, &response);
  if (!status.ok()) {
    fprintf(stderr, "%s\n", status.error_message().c_str());
    return 1;
  }
  printf("%d processes\n", response.processes_size());
  return 0;
}
