// The call that sets budgets.
#include <unistd.h>

#include "daemon/printable.h"
#include "daemon/service.h"
#include "daemon/service_tcp.h"
#include "daemon/service_text.h"
#include "daemon/status.h"
#include "daemon/status_grpc.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

constexpr size_t kLongestJob = sizeof(wire::Hello::job) - 1;

}  // namespace

void Write(const Budgets::Entry& in, v1::Budget* out) {
  out->set_job(in.limits.job);
  out->set_host_bytes(in.limits.host.value_or(0));
  out->set_disk_bytes(in.limits.disk.value_or(0));
  out->set_host_used_bytes(in.use.HostBytes());
  out->set_disk_used_bytes(in.use.DiskBytes());
  out->set_over(in.IsOver());
}

grpc::Status ControlService::SetBudget(grpc::ServerContext* context,
                                       const v1::SetBudgetRequest* request,
                                       v1::SetBudgetResponse* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  // Who runs a daemon for himself is its administrator.
  if (!caller->sees_all && caller->uid != geteuid()) {
    return ToGrpc(Fail(absl::StatusCode::kPermissionDenied, "NOT_AN_ADMINISTRATOR",
                       "budgets are set by root, the daemon's own user and members of the group "
                       "parkade"));
  }
  BudgetLimits change;
  change.job = request->job();
  if (change.job.size() > kLongestJob || Printable(change.job) != change.job) {
    return ToGrpc(Fail(absl::StatusCode::kInvalidArgument, "BAD_REQUEST",
                       Cat("a job has at most ", kLongestJob, " printable characters")));
  }
  if (request->has_host_bytes()) change.host = request->host_bytes();
  if (request->has_disk_bytes()) change.disk = request->disk_bytes();
  if (change.host || change.disk) {
    if (auto s = to_.budgets.Set(change); !s.ok()) return ToGrpc(s);
  }
  Write(to_.budgets.Of(change.job), response->mutable_budget());
  return grpc::Status::OK;
}

}  // namespace parkade::daemon
