// ControlService: the gRPC face of the daemon. Translates, asks, answers; decides nothing.
#pragma once

#include "daemon/authority.h"
#include "daemon/node_state.h"
#include "daemon/operations.h"
#include "proto/control.grpc.pb.h"

namespace parkade::daemon {

class ControlService final : public v1::Control::Service {
 public:
  // All outlive it.
  struct Neighbours {
    const Authority& authority;
    Registry& registry;
    Events& events;
    const Gpus& gpus;
    const Scratch& scratch;
    NodeState& node;
    Operations& operations;
  };
  explicit ControlService(Neighbours neighbours) : to_(neighbours) {}

  grpc::Status ListProcesses(grpc::ServerContext* context, const v1::ListProcessesRequest* request,
                             v1::ListProcessesResponse* response) override;
  grpc::Status GetProcess(grpc::ServerContext* context, const v1::GetProcessRequest* request,
                          v1::GetProcessResponse* response) override;
  grpc::Status GetNode(grpc::ServerContext* context, const v1::GetNodeRequest* request,
                       v1::GetNodeResponse* response) override;
  grpc::Status Pause(grpc::ServerContext* context, const v1::PauseRequest* request,
                     v1::PauseResponse* response) override;
  grpc::Status Resume(grpc::ServerContext* context, const v1::ResumeRequest* request,
                      v1::ResumeResponse* response) override;
  grpc::Status CollectGarbage(grpc::ServerContext* context,
                              const v1::CollectGarbageRequest* request,
                              v1::CollectGarbageResponse* response) override;
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::Event>* writer) override;

 private:
  template <typename Request, typename Response, typename Order>
  grpc::Status Carry(const grpc::ServerContext& context, const Request& request, Response* response,
                     absl::StatusOr<Outcomes> (NodeState::*carry_out)(const Caller&, const Order&,
                                                                      uint64_t));

  const Neighbours to_;
};

}  // namespace parkade::daemon
