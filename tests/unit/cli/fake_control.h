// FakeControl: a daemon in software, on a Unix socket in a directory of its own. It answers what
// the test says and keeps what it was asked.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "proto/control.grpc.pb.h"
#include "tests/unit/cli/runner.h"

namespace parkade::cli {

class FakeControl final : public v1::Control::Service {
 public:
  FakeControl();
  ~FakeControl() override;

  // "--runtime-dir=DIR", for the command line under test.
  std::string flag() const { return "--runtime-dir=" + directory_.path(); }
  const std::string& directory() const { return directory_.path(); }

  // Answers; set them before the call.
  grpc::Status error;        // of every call but Watch, unless OK
  grpc::Status watch_error;  // of Watch, after its events
  v1::ListProcessesResponse list_answer;
  v1::GetProcessResponse get_answer;
  v1::GetNodeResponse node_answer;
  v1::PauseResponse pause_answer;
  v1::ResumeResponse resume_answer;
  v1::HandoffResponse handoff_answer;
  v1::WaitFreeResponse free_answer;
  v1::ReserveResponse reserve_answer;
  v1::SetBudgetResponse budget_answer;
  v1::VerifyResponse verify_answer;
  v1::PrefetchResponse prefetch_answer;
  v1::ListStoresResponse stores_answer;
  v1::GetStoreResponse store_answer;
  v1::Operation operation_answer;  // of GetOperation, which never fails
  v1::CollectGarbageResponse garbage_answer;
  v1::ListOperationsResponse operations_answer;
  v1::Operation cancel_answer;
  v1::ListGroupsResponse groups_answer;
  std::vector<v1::TimelineEntry> timeline;  // what GetTimeline sends
  std::vector<v1::Event> events;            // what Watch sends
  bool watch_ends = true;                   // after them; else when this object goes
  std::function<void()> before_answer;      // called inside Pause and Resume

  // Questions; read them after the call.
  v1::ListProcessesRequest list_request;
  v1::GetProcessRequest get_request;
  v1::PauseRequest pause_request;
  v1::ResumeRequest resume_request;
  v1::HandoffRequest handoff_request;
  v1::WaitFreeRequest free_request;
  v1::ReserveRequest reserve_request;
  v1::ReleaseRequest release_request;
  v1::SetBudgetRequest budget_request;
  v1::VerifyRequest verify_request;
  v1::PrefetchRequest prefetch_request;
  v1::ListStoresRequest stores_request;
  v1::GetStoreRequest store_request;
  v1::GetOperationRequest operation_request;
  v1::WatchRequest watch_request;
  v1::CollectGarbageRequest garbage_request;
  v1::ListOperationsRequest operations_request;
  v1::CancelOperationRequest cancel_request;
  v1::DefineGroupRequest define_request;
  v1::RemoveGroupRequest remove_request;
  v1::MarkRequest mark_request;
  v1::GetTimelineRequest timeline_request;
  int moves = 0;  // calls of Pause, Resume and Handoff

 private:
  grpc::Status ListProcesses(grpc::ServerContext*, const v1::ListProcessesRequest*,
                             v1::ListProcessesResponse*) override;
  grpc::Status GetProcess(grpc::ServerContext*, const v1::GetProcessRequest*,
                          v1::GetProcessResponse*) override;
  grpc::Status GetNode(grpc::ServerContext*, const v1::GetNodeRequest*,
                       v1::GetNodeResponse*) override;
  grpc::Status Pause(grpc::ServerContext*, const v1::PauseRequest*, v1::PauseResponse*) override;
  grpc::Status Resume(grpc::ServerContext*, const v1::ResumeRequest*, v1::ResumeResponse*) override;
  grpc::Status Handoff(grpc::ServerContext*, const v1::HandoffRequest*,
                       v1::HandoffResponse*) override;
  grpc::Status WaitFree(grpc::ServerContext*, const v1::WaitFreeRequest*,
                        v1::WaitFreeResponse*) override;
  grpc::Status Reserve(grpc::ServerContext*, const v1::ReserveRequest*,
                       v1::ReserveResponse*) override;
  grpc::Status Release(grpc::ServerContext*, const v1::ReleaseRequest*,
                       v1::ReleaseResponse*) override;
  grpc::Status SetBudget(grpc::ServerContext*, const v1::SetBudgetRequest*,
                         v1::SetBudgetResponse*) override;
  grpc::Status Verify(grpc::ServerContext*, const v1::VerifyRequest*, v1::VerifyResponse*) override;
  grpc::Status Prefetch(grpc::ServerContext*, const v1::PrefetchRequest*,
                        v1::PrefetchResponse*) override;
  grpc::Status ListStores(grpc::ServerContext*, const v1::ListStoresRequest*,
                          v1::ListStoresResponse*) override;
  grpc::Status GetStore(grpc::ServerContext*, const v1::GetStoreRequest*,
                        v1::GetStoreResponse*) override;
  grpc::Status GetOperation(grpc::ServerContext*, const v1::GetOperationRequest*,
                            v1::Operation*) override;
  grpc::Status CollectGarbage(grpc::ServerContext*, const v1::CollectGarbageRequest*,
                              v1::CollectGarbageResponse*) override;
  grpc::Status ListOperations(grpc::ServerContext*, const v1::ListOperationsRequest*,
                              v1::ListOperationsResponse*) override;
  grpc::Status CancelOperation(grpc::ServerContext*, const v1::CancelOperationRequest*,
                               v1::Operation*) override;
  grpc::Status DefineGroup(grpc::ServerContext*, const v1::DefineGroupRequest*,
                           v1::Group*) override;
  grpc::Status RemoveGroup(grpc::ServerContext*, const v1::RemoveGroupRequest*,
                           v1::RemoveGroupResponse*) override;
  grpc::Status ListGroups(grpc::ServerContext*, const v1::ListGroupsRequest*,
                          v1::ListGroupsResponse*) override;
  grpc::Status Watch(grpc::ServerContext*, const v1::WatchRequest*,
                     grpc::ServerWriter<v1::Event>*) override;

  grpc::Status Mark(grpc::ServerContext*, const v1::MarkRequest*, v1::MarkResponse*) override;
  grpc::Status GetTimeline(grpc::ServerContext*, const v1::GetTimelineRequest*,
                           grpc::ServerWriter<v1::TimelineEntry>*) override;

  TestDirectory directory_;
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;  // innermost
  CondVar closing_changed_;
  bool closing_ GUARDED_BY(mutex_) = false;
};

// An error as the daemon sends it, with its reason in a google.rpc.ErrorInfo.
grpc::Status ErrorWithReason(grpc::StatusCode code, const std::string& message,
                             const std::string& reason);

// A process with a bit of everything.
v1::Process MakeProcess(int32_t pid, v1::ProcessState state);

}  // namespace parkade::cli
