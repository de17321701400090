// Serves canned answers over gRPC.
#include "tests/unit/cli/fake_control.h"

#include <catch2/catch.hpp>

#include "common/bytes.h"
#include "proto/error.pb.h"

namespace parkade::cli {

FakeControl::FakeControl() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + directory_.path() + "/control.sock",
                           grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  REQUIRE(server_ != nullptr);
}

FakeControl::~FakeControl() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  closing_changed_.NotifyAll();
  server_->Shutdown(std::chrono::system_clock::now());
}

grpc::Status FakeControl::ListProcesses(grpc::ServerContext*,
                                        const v1::ListProcessesRequest* request,
                                        v1::ListProcessesResponse* response) {
  list_request = *request;
  *response = list_answer;
  return error;
}

grpc::Status FakeControl::GetProcess(grpc::ServerContext*, const v1::GetProcessRequest* request,
                                     v1::GetProcessResponse* response) {
  get_request = *request;
  *response = get_answer;
  return error;
}

grpc::Status FakeControl::GetNode(grpc::ServerContext*, const v1::GetNodeRequest*,
                                  v1::GetNodeResponse* response) {
  *response = node_answer;
  return error;
}

grpc::Status FakeControl::Pause(grpc::ServerContext*, const v1::PauseRequest* request,
                                v1::PauseResponse* response) {
  ++moves;
  pause_request = *request;
  if (before_answer) before_answer();
  *response = pause_answer;
  return error;
}

grpc::Status FakeControl::Resume(grpc::ServerContext*, const v1::ResumeRequest* request,
                                 v1::ResumeResponse* response) {
  ++moves;
  resume_request = *request;
  if (before_answer) before_answer();
  *response = resume_answer;
  return error;
}

grpc::Status FakeControl::Handoff(grpc::ServerContext*, const v1::HandoffRequest* request,
                                  v1::HandoffResponse* response) {
  ++moves;
  handoff_request = *request;
  *response = handoff_answer;
  return error;
}

grpc::Status FakeControl::WaitFree(grpc::ServerContext*, const v1::WaitFreeRequest* request,
                                   v1::WaitFreeResponse* response) {
  free_request = *request;
  *response = free_answer;
  return error;
}

grpc::Status FakeControl::Reserve(grpc::ServerContext*, const v1::ReserveRequest* request,
                                  v1::ReserveResponse* response) {
  reserve_request = *request;
  *response = reserve_answer;
  return error;
}

grpc::Status FakeControl::Release(grpc::ServerContext*, const v1::ReleaseRequest* request,
                                  v1::ReleaseResponse*) {
  release_request = *request;
  return error;
}

grpc::Status FakeControl::SetBudget(grpc::ServerContext*, const v1::SetBudgetRequest* request,
                                    v1::SetBudgetResponse* response) {
  budget_request = *request;
  *response = budget_answer;
  return error;
}

grpc::Status FakeControl::Verify(grpc::ServerContext*, const v1::VerifyRequest* request,
                                 v1::VerifyResponse* response) {
  verify_request = *request;
  *response = verify_answer;
  return error;
}

grpc::Status FakeControl::ListStores(grpc::ServerContext*, const v1::ListStoresRequest* request,
                                     v1::ListStoresResponse* response) {
  stores_request = *request;
  *response = stores_answer;
  return error;
}

grpc::Status FakeControl::GetStore(grpc::ServerContext*, const v1::GetStoreRequest* request,
                                   v1::GetStoreResponse* response) {
  store_request = *request;
  *response = store_answer;
  return error;
}

grpc::Status FakeControl::Prefetch(grpc::ServerContext*, const v1::PrefetchRequest* request,
                                   v1::PrefetchResponse* response) {
  prefetch_request = *request;
  *response = prefetch_answer;
  return error;
}

grpc::Status FakeControl::GetOperation(grpc::ServerContext*, const v1::GetOperationRequest* request,
                                       v1::Operation* response) {
  operation_request = *request;
  *response = operation_answer;
  return grpc::Status::OK;
}

grpc::Status FakeControl::CollectGarbage(grpc::ServerContext*,
                                         const v1::CollectGarbageRequest* request,
                                         v1::CollectGarbageResponse* response) {
  garbage_request = *request;
  *response = garbage_answer;
  return error;
}

grpc::Status FakeControl::ListOperations(grpc::ServerContext*,
                                         const v1::ListOperationsRequest* request,
                                         v1::ListOperationsResponse* response) {
  operations_request = *request;
  *response = operations_answer;
  return error;
}

grpc::Status FakeControl::CancelOperation(grpc::ServerContext*,
                                          const v1::CancelOperationRequest* request,
                                          v1::Operation* response) {
  cancel_request = *request;
  *response = cancel_answer;
  return error;
}

grpc::Status FakeControl::DefineGroup(grpc::ServerContext*, const v1::DefineGroupRequest* request,
                                      v1::Group* response) {
  define_request = *request;
  *response = request->group();
  return error;
}

grpc::Status FakeControl::RemoveGroup(grpc::ServerContext*, const v1::RemoveGroupRequest* request,
                                      v1::RemoveGroupResponse*) {
  remove_request = *request;
  return error;
}

grpc::Status FakeControl::ListGroups(grpc::ServerContext*, const v1::ListGroupsRequest*,
                                     v1::ListGroupsResponse* response) {
  *response = groups_answer;
  return error;
}

grpc::Status FakeControl::Mark(grpc::ServerContext*, const v1::MarkRequest* request,
                               v1::MarkResponse*) {
  mark_request = *request;
  return error;
}

grpc::Status FakeControl::GetTimeline(grpc::ServerContext*, const v1::GetTimelineRequest* request,
                                      grpc::ServerWriter<v1::TimelineEntry>* writer) {
  timeline_request = *request;
  for (const auto& entry : timeline) writer->Write(entry);
  return error;
}

grpc::Status FakeControl::Watch(grpc::ServerContext*, const v1::WatchRequest* request,
                                grpc::ServerWriter<v1::Event>* writer) {
  watch_request = *request;
  for (const v1::Event& event : events) writer->Write(event);
  if (watch_ends) return watch_error;
  MutexLock lock(mutex_);
  while (!closing_) closing_changed_.WaitUntil(mutex_, Deadline::Never());
  return grpc::Status::CANCELLED;
}

grpc::Status ErrorWithReason(grpc::StatusCode code, const std::string& message,
                             const std::string& reason) {
  v1::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("parkade.v1");
  v1::ErrorStatus status;
  status.set_code(int32_t(code));
  status.set_message(message);
  google::protobuf::Any* detail = status.add_details();
  detail->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  detail->set_value(info.SerializeAsString());
  return grpc::Status(code, message, status.SerializeAsString());
}

v1::Process MakeProcess(int32_t pid, v1::ProcessState state) {
  v1::Process process;
  process.set_pid(pid);
  process.set_start_ticks(77);
  process.set_uid(1000);
  process.set_command("python train.py");
  process.set_job("rl");
  process.set_role("actor");
  process.set_rank(3);
  process.set_state(state);
  process.set_connected(true);
  v1::ProcessDevice* device = process.add_devices();
  device->set_gpu_uuid("GPU-aaaa");
  device->set_resident_bytes(8_GiB);
  device->set_requested_bytes(7_GiB);
  device->set_foreign_bytes(620_MiB);
  process.set_host_backup_bytes(2_GiB);
  process.set_disk_backup_bytes(3_MiB);
  process.set_host_pool_bytes(4_GiB);
  process.set_host_retained_bytes(1_GiB);
  process.set_allocation_count(12);
  process.set_shim_version("0.1.0");
  return process;
}

}  // namespace parkade::cli
