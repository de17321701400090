// Keeps reservations by id.
#include "daemon/reservations.h"

#include <algorithm>

#include "common/deadline.h"
#include "daemon/identity.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

bool Holds(const Reservation& each) {
  if (each.until_ns != 0 && MonotonicNs() >= each.until_ns) return false;
  return each.pid == 0 || StartTicks(each.pid) == each.start_ticks;
}

}  // namespace

Reservations::Reservations(Journal* journal) : journal_(journal) {
  if (journal_ == nullptr) return;
  const MutexLock lock(mu_);
  for (const Reservation& each : journal_->found().reservations) all_[each.id] = each;
}

std::vector<Reservation> Reservations::Live() {
  std::vector<Reservation> live;
  {
    const MutexLock lock(mu_);
    for (const auto& [id, each] : all_) live.push_back(each);
  }
  std::vector<std::string> ended;
  std::erase_if(live, [&](const Reservation& each) {
    if (Holds(each)) return false;
    ended.push_back(each.id);
    return true;
  });
  const MutexLock lock(mu_);
  for (const std::string& id : ended) {
    if (all_.erase(id) != 0 && journal_ != nullptr) journal_->EndReservation(id);
  }
  return live;
}

absl::Status Reservations::CheckCount(const std::string& owner) {
  const auto live = Live();
  const auto own = std::count_if(live.begin(), live.end(),
                                 [&](const Reservation& each) { return each.owner == owner; });
  if (size_t(own) < kMost) return absl::OkStatus();
  return Fail(absl::StatusCode::kResourceExhausted, "TOO_MANY_RESERVATIONS",
              Cat(owner, " has ", own, " reservations already"));
}

absl::Status Reservations::Add(const Reservation& reservation) {
  if (auto s = CheckCount(reservation.owner); !s.ok()) return s;
  const MutexLock lock(mu_);
  all_[reservation.id] = reservation;
  if (journal_ != nullptr) journal_->Reserve(reservation);
  return absl::OkStatus();
}

absl::StatusOr<Reservation> Reservations::Find(const Caller& caller, const std::string& id) {
  for (const Reservation& each : List(caller)) {
    if (each.id == id) return each;
  }
  return Fail(absl::StatusCode::kNotFound, "NO_RESERVATION",
              Cat("there is no reservation \"", id, "\", or it has ended"), {{"reservation", id}});
}

absl::Status Reservations::Release(const Caller& caller, const std::string& id) {
  if (const auto found = Find(caller, id); !found.ok()) return found.status();
  const MutexLock lock(mu_);
  if (all_.erase(id) != 0 && journal_ != nullptr) journal_->EndReservation(id);
  return absl::OkStatus();
}

std::vector<Reservation> Reservations::List(const Caller& caller) {
  std::vector<Reservation> seen = Live();
  std::erase_if(seen, [&](const Reservation& each) {
    return !caller.sees_all && each.owner != caller.Name();
  });
  return seen;
}

ByGpu Reservations::Kept() {
  ByGpu kept;
  for (const Reservation& each : Live()) kept[each.gpu_uuid] += each.bytes;
  return kept;
}

}  // namespace parkade::daemon
