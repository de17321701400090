// Client: the calls of proto/control.proto with deadlines and errors that cli/error.h can explain.
// Only client.cc knows gRPC.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/context.h"
#include "proto/control.pb.h"

namespace parkade::cli {

// One stream of Watch. Next and Finish belong to one thread; Cancel may be called from any.
class EventStream {
 public:
  struct Call;
  explicit EventStream(std::unique_ptr<Call> call);
  ~EventStream();  // cancels the call

  // Blocks for the next event; false when the stream has ended.
  bool Next(v1::Event* event);
  // Why it ended; only after Next gave false.
  absl::Status Finish();
  void Cancel();

 private:
  std::unique_ptr<Call> call_;
};

class Client {
 public:
  // Connects at the first call, to control.sock in the runtime directory or to the address; what is
  // wrong with either (see EndpointOf) every call answers. Calls last as long as
  // --timeout says, else 10 s for questions and 30 min for transitions, their cancelling, waits for
  // free memory, reserve, verify, prefetch and gc; a watch has no end.
  explicit Client(const Globals& globals);
  ~Client();

  absl::StatusOr<v1::ListProcessesResponse> ListProcesses(const v1::ListProcessesRequest& request);
  absl::StatusOr<v1::GetProcessResponse> GetProcess(int32_t pid);
  absl::StatusOr<v1::GetNodeResponse> GetNode();
  absl::StatusOr<v1::PauseResponse> Pause(const v1::PauseRequest& request);
  absl::StatusOr<v1::ResumeResponse> Resume(const v1::ResumeRequest& request);
  absl::StatusOr<v1::HandoffResponse> Handoff(const v1::HandoffRequest& request);
  absl::StatusOr<v1::WaitFreeResponse> WaitFree(const v1::WaitFreeRequest& request);
  absl::StatusOr<v1::ReserveResponse> Reserve(const v1::ReserveRequest& request);
  absl::StatusOr<v1::ReleaseResponse> Release(const v1::ReleaseRequest& request);
  absl::StatusOr<v1::SetBudgetResponse> SetBudget(const v1::SetBudgetRequest& request);
  absl::StatusOr<v1::VerifyResponse> Verify(const v1::VerifyRequest& request);
  absl::StatusOr<v1::PrefetchResponse> Prefetch(const v1::PrefetchRequest& request);
  absl::StatusOr<v1::Operation> GetOperation(const v1::GetOperationRequest& request);
  absl::StatusOr<v1::ListOperationsResponse> ListOperations(
      const v1::ListOperationsRequest& request);
  absl::StatusOr<v1::Operation> CancelOperation(const v1::CancelOperationRequest& request);
  absl::StatusOr<v1::Group> DefineGroup(const v1::DefineGroupRequest& request);
  absl::StatusOr<v1::RemoveGroupResponse> RemoveGroup(const v1::RemoveGroupRequest& request);
  absl::StatusOr<v1::ListGroupsResponse> ListGroups();
  absl::StatusOr<v1::CollectGarbageResponse> CollectGarbage(
      const v1::CollectGarbageRequest& request);
  absl::StatusOr<v1::ListStoresResponse> ListStores(const v1::ListStoresRequest& request);
  absl::StatusOr<v1::GetStoreResponse> GetStore(const v1::GetStoreRequest& request);
  absl::StatusOr<v1::MarkResponse> Mark(const v1::MarkRequest& request);
  // Gives each message of the stream to `hear`, until its end. As long as a transition.
  absl::Status GetTimeline(const v1::GetTimelineRequest& request,
                           const std::function<void(const v1::TimelineEntry&)>& hear);
  // Begins a watch; errors show when the stream ends.
  std::unique_ptr<EventStream> Watch(const v1::WatchRequest& request);

 private:
  struct Wire;
  std::unique_ptr<Wire> wire_;
};

}  // namespace parkade::cli
