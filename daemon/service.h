// ControlService: the gRPC face of the daemon. Translates, asks, answers; decides nothing.
#pragma once

#include "daemon/authority.h"
#include "daemon/budgets.h"
#include "daemon/groups.h"
#include "daemon/node_state.h"
#include "daemon/node_timeline.h"
#include "daemon/operations.h"
#include "daemon/write_behinds.h"
#include "proto/control.grpc.pb.h"

namespace parkade::daemon {

// Until when an answer may wait: 100 ms before the caller stops listening, so that it hears that
// the work goes on.
Deadline AnswerBy(const grpc::ServerContext& context);

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
    Groups& groups;
    const GpuAccount& account;
    Reservations& reservations;
    Budgets& budgets;
    WriteBehinds& behinds;
    NodeTimeline& timeline;
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
  grpc::Status Handoff(grpc::ServerContext* context, const v1::HandoffRequest* request,
                       v1::HandoffResponse* response) override;
  grpc::Status WaitFree(grpc::ServerContext* context, const v1::WaitFreeRequest* request,
                        v1::WaitFreeResponse* response) override;
  grpc::Status Reserve(grpc::ServerContext* context, const v1::ReserveRequest* request,
                       v1::ReserveResponse* response) override;
  grpc::Status Release(grpc::ServerContext* context, const v1::ReleaseRequest* request,
                       v1::ReleaseResponse* response) override;
  grpc::Status SetBudget(grpc::ServerContext* context, const v1::SetBudgetRequest* request,
                         v1::SetBudgetResponse* response) override;
  grpc::Status Verify(grpc::ServerContext* context, const v1::VerifyRequest* request,
                      v1::VerifyResponse* response) override;
  grpc::Status Prefetch(grpc::ServerContext* context, const v1::PrefetchRequest* request,
                        v1::PrefetchResponse* response) override;
  grpc::Status GetOperation(grpc::ServerContext* context, const v1::GetOperationRequest* request,
                            v1::Operation* response) override;
  grpc::Status WaitOperation(grpc::ServerContext* context, const v1::WaitOperationRequest* request,
                             v1::Operation* response) override;
  grpc::Status CancelOperation(grpc::ServerContext* context,
                               const v1::CancelOperationRequest* request,
                               v1::Operation* response) override;
  grpc::Status ListOperations(grpc::ServerContext* context,
                              const v1::ListOperationsRequest* request,
                              v1::ListOperationsResponse* response) override;
  grpc::Status DefineGroup(grpc::ServerContext* context, const v1::DefineGroupRequest* request,
                           v1::Group* response) override;
  grpc::Status RemoveGroup(grpc::ServerContext* context, const v1::RemoveGroupRequest* request,
                           v1::RemoveGroupResponse* response) override;
  grpc::Status ListGroups(grpc::ServerContext* context, const v1::ListGroupsRequest* request,
                          v1::ListGroupsResponse* response) override;
  grpc::Status CollectGarbage(grpc::ServerContext* context,
                              const v1::CollectGarbageRequest* request,
                              v1::CollectGarbageResponse* response) override;
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::Event>* writer) override;
  grpc::Status Mark(grpc::ServerContext* context, const v1::MarkRequest* request,
                    v1::MarkResponse* response) override;
  grpc::Status GetTimeline(grpc::ServerContext* context, const v1::GetTimelineRequest* request,
                           grpc::ServerWriter<v1::TimelineEntry>* writer) override;

  grpc::Status ListStores(grpc::ServerContext* context, const v1::ListStoresRequest* request,
                          v1::ListStoresResponse* response) override;
  grpc::Status GetStore(grpc::ServerContext* context, const v1::GetStoreRequest* request,
                        v1::GetStoreResponse* response) override;

 private:
  // Carries `work` out as an operation under the request's id, and waits for it while the caller
  // does.
  absl::StatusOr<OperationView> Perform(const grpc::ServerContext& context, const Caller& caller,
                                        OperationKind kind, const std::string& request_id,
                                        const google::protobuf::Message& request,
                                        Operations::Work work);
  template <typename Request, typename Response, typename Order>
  grpc::Status Carry(const grpc::ServerContext& context, OperationKind kind, const Request& request,
                     Response* response,
                     absl::StatusOr<Outcomes> (NodeState::*carry_out)(const Caller&, const Order&,
                                                                      Course&));
  // What an order needs of the daemon's other parts.
  void Equip(PauseOrder& order) const;
  void Equip(HandoffOrder& order) const { Equip(order.outgoing); }
  void Equip(ResumeOrder&) const {}

  // What processes do with their backups while they stay paused.
  template <typename Request, typename Response, typename Order>
  grpc::Status CarryBeside(const grpc::ServerContext& context, OperationKind kind,
                           const Request& request, Response* response,
                           absl::StatusOr<Outcomes> (NodeState::*carry_out)(const Caller&,
                                                                            const Order&, Course&));

  // Each GPU with who has its memory, who will have it, and who waits for it.
  void WriteGpus(const Caller& caller, v1::GetNodeResponse* response);

  const Neighbours to_;
};

}  // namespace parkade::daemon
