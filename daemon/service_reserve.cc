// The calls about memory of GPUs that is kept for somebody, and how a GPU's memory is told of.
#include <algorithm>
#include <map>
#include <set>

#include "common/deadline.h"
#include "daemon/printable.h"
#include "daemon/service.h"
#include "daemon/service_tcp.h"
#include "daemon/service_text.h"
#include "daemon/status.h"
#include "daemon/status_grpc.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

constexpr size_t kLongestLabel = 63;

// What a process counts itself on each GPU: its heap, and foreign memory that its shim has seen.
ByGpu OwnCountOf(const ProcessView& view) {
  ByGpu count;
  if (!view.ledger) return count;
  for (const wire::LedgerDevice& device : view.ledger->devices) {
    if (device.used == 0) continue;
    // A shim's word: more than any GPU has is no figure.
    constexpr Bytes kMost = Bytes(1) << 48;
    count[GpuUuid(device.uuid)] += std::min<Bytes>(device.resident_bytes, kMost) +
                                   std::min<Bytes>(device.foreign_bytes, kMost);
  }
  return count;
}

}  // namespace

absl::StatusOr<ReserveOrder> Read(const v1::ReserveRequest& in) {
  const auto bad_size = [](std::string_view what) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_SIZE", what);
  };
  if (in.bytes() == 0) return bad_size("bytes must not be 0");
  const auto ttl = ReadNs(in.ttl(), "ttl");
  if (!ttl.ok()) return ttl.status();
  if (in.has_ttl() && *ttl == 0) return bad_size("ttl must be more than zero");
  const auto wait = ReadNs(in.wait_timeout(), "wait_timeout");
  if (!wait.ok()) return wait.status();
  if (in.label().size() > kLongestLabel || Printable(in.label()) != in.label()) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_REQUEST",
                Cat("a label has at most ", kLongestLabel, " bytes, all printable"));
  }
  if (in.pid() < 0) {
    return Fail(absl::StatusCode::kNotFound, "NO_PROCESS", Cat("there is no process ", in.pid()),
                {{"pid", std::to_string(in.pid())}});
  }
  return ReserveOrder{
      in.gpu_uuid(), in.bytes(), in.label(), *ttl, in.pid(), *wait, ReadPriority(in.priority())};
}

void Write(const Reservation& in, v1::Reservation* out) {
  out->set_id(in.id);
  out->set_owner(in.owner);
  out->set_label(in.label);
  out->set_gpu_uuid(in.gpu_uuid);
  out->set_bytes(in.bytes);
  out->set_pid(in.pid);
  if (in.until_ns == 0) return;
  const uint64_t now_ns = MonotonicNs();
  const uint64_t left_ns = in.until_ns > now_ns ? in.until_ns - now_ns : 0;
  out->mutable_time_left()->set_seconds(int64_t(left_ns / 1'000'000'000));
  out->mutable_time_left()->set_nanos(int32_t(left_ns % 1'000'000'000));
}

void Write(const GpuWait& in, v1::GpuWait* out) {
  out->set_gpu_uuid(in.uuid);
  out->set_needed_bytes(in.needed);
  out->set_free_bytes(in.free);
  out->set_booked_bytes(in.booked);
  out->set_reserved_bytes(in.reserved);
  out->set_ahead_bytes(in.ahead);
  out->set_position(in.position);
  out->set_priority(in.priority);
  out->set_waited_seconds(in.waited_seconds);
}

grpc::Status ControlService::Reserve(grpc::ServerContext* context,
                                     const v1::ReserveRequest* request,
                                     v1::ReserveResponse* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const auto order = Read(*request);
  if (!order.ok()) return ToGrpc(order.status());
  const auto ended =
      Perform(*context, *caller, OperationKind::kReserve, request->request_id(), *request,
              [&node = to_.node, caller = *caller, order = *order](Course& course) {
                return node.Reserve(caller, order, course);
              });
  if (!ended.ok()) return ToGrpc(ended.status());
  const Outcome& outcome = (*ended->answer)->front();
  const auto reservation = to_.node.Reserved(*caller, outcome.reservation);
  if (!reservation.ok()) return ToGrpc(reservation.status());
  Write(*reservation, response->mutable_reservation());
  response->set_operation_id(ended->origin.id);
  response->set_waited_seconds(outcome.wait_seconds);
  return grpc::Status::OK;
}

grpc::Status ControlService::Release(grpc::ServerContext* context,
                                     const v1::ReleaseRequest* request, v1::ReleaseResponse*) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  return ToGrpc(to_.node.Release(*caller, request->id()));
}

void ControlService::WriteGpus(const Caller& caller, v1::GetNodeResponse* response) {
  std::map<int, ByGpu> own;
  for (const auto& process : to_.registry.All()) own[process->pid()] = OwnCountOf(process->View());
  std::set<std::string> operations;
  for (const OperationView& view : to_.operations.List(caller)) operations.insert(view.origin.id);
  const uint64_t now_ns = MonotonicNs();
  const auto reservations = to_.reservations.List(caller);
  for (const GpuView& gpu : to_.gpus.Read()) {
    v1::Gpu* out = response->add_gpus();
    Write(gpu, out);
    Bytes managed = 0;
    for (const auto& [pid, count] : own) {
      if (const auto at = count.find(gpu.uuid); at != count.end()) managed += at->second;
    }
    for (v1::GpuUser& user : *out->mutable_users()) {
      const auto process = own.find(user.pid());
      user.set_managed(process != own.end());
      if (process != own.end()) user.set_managed_bytes(process->second[gpu.uuid]);
    }
    const Bytes used = gpu.total > gpu.free ? gpu.total - gpu.free : 0;
    out->set_managed_bytes(managed);
    out->set_unexplained_bytes(used > managed ? used - managed : 0);
    const GpuAccount::Room room = to_.account.RoomOn(gpu.uuid);
    out->set_booked_bytes(room.booked);
    out->set_reserved_bytes(room.reserved);
    for (const GpuQueue::Waiter& waiter : to_.account.WaitersOn(gpu.uuid)) {
      auto* waits = out->add_waiting();
      if (operations.contains(waiter.name)) waits->set_operation_id(waiter.name);
      waits->set_position(waiter.position);
      waits->set_priority(waiter.priority);
      waits->set_needed_bytes(waiter.needed);
      waits->set_waited_seconds(double(now_ns - std::min(now_ns, waiter.since_ns)) / 1e9);
    }
    for (const Reservation& reservation : reservations) {
      if (reservation.gpu_uuid == gpu.uuid) Write(reservation, out->add_reservations());
    }
  }
}

}  // namespace parkade::daemon
