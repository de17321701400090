// Keeping free memory of a GPU for somebody, as soon as it is his turn.
#include <algorithm>
#include <utility>

#include "daemon/explain.h"
#include "daemon/identity.h"
#include "daemon/node_state.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

absl::Status CheckSize(const ReserveOrder& order, const std::vector<GpuView>& gpus) {
  const auto gpu = std::find_if(gpus.begin(), gpus.end(),
                                [&](const GpuView& g) { return g.uuid == order.gpu_uuid; });
  if (gpu == gpus.end()) return NoGpu(order.gpu_uuid);
  // 0: the driver does not say.
  if (gpu->total == 0 || order.bytes <= gpu->total) return absl::OkStatus();
  return Fail(absl::StatusCode::kInvalidArgument, "BAD_SIZE",
              Cat(InUnits(order.bytes), " are more than ", order.gpu_uuid, " has, which is ",
                  InUnits(gpu->total)),
              {{"gpu_uuid", order.gpu_uuid}, {"total_bytes", std::to_string(gpu->total)}});
}

absl::Status NoProcess(int32_t pid) {
  return Fail(absl::StatusCode::kNotFound, "NO_PROCESS", Cat("there is no process ", pid),
              {{"pid", std::to_string(pid)}});
}

}  // namespace

absl::StatusOr<Outcomes> NodeState::Reserve(const Caller& caller, const ReserveOrder& order,
                                            Course& course) {
  if (to_.gpus.source() != "nvml") return NoFigures(to_.gpus);
  if (auto s = CheckSize(order, to_.gpus.Read()); !s.ok()) return s;
  auto asked = to_.reservations.Ask(caller.Name());
  if (!asked.ok()) return asked.status();
  Reservation reservation{
      course.origin().id, caller.Name(), order.label, order.gpu_uuid, order.bytes, 0, order.pid, 0};
  const auto start_ticks = order.pid == 0 ? 0 : StartTicks(order.pid);
  if (!start_ticks) return NoProcess(order.pid);
  reservation.start_ticks = *start_ticks;
  const auto has_ended = [pid = order.pid, ticks = *start_ticks] {
    return pid != 0 && HasEnded(pid, ticks);
  };
  GpuAccount::Booking::Owner owner{
      [] { return ByGpu{}; },
      [&course, has_ended] { return course.unwanted() || has_ended(); },
      [&course](auto waits) { course.Waits(std::move(waits)); },
      course.origin().id,
      order.priority,
      GpuAccount::Booking::Last::kByAccount};
  GpuAccount::Booking booking(to_.account, std::move(owner));
  const ByGpu needed{{order.gpu_uuid, order.bytes}};
  const absl::Status booked = booking.Book(needed, Deadline::InNs(order.wait_timeout_ns));
  if (course.unwanted()) return course.Cancellation();
  if (has_ended()) return NoProcess(order.pid);
  if (!booked.ok()) return ExplainShortage(booked, needed, to_.gpus);
  if (order.ttl_ns != 0) reservation.until_ns = MonotonicNs() + order.ttl_ns;
  // While it is still booked, so that nobody finds neither of the two.
  to_.reservations.Add(std::move(*asked), reservation);
  Outcome outcome;
  outcome.reservation = reservation.id;
  outcome.wait_seconds = booking.waited_seconds();
  return Outcomes{outcome};
}

absl::StatusOr<Reservation> NodeState::Reserved(const Caller& caller, const std::string& id) const {
  return to_.reservations.Find(caller, id);
}

absl::Status NodeState::Release(const Caller& caller, const std::string& id) {
  if (auto s = to_.reservations.Release(caller, id); !s.ok()) return s;
  to_.account.Changed();
  return absl::OkStatus();
}

}  // namespace parkade::daemon
