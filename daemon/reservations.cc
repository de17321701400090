// Keeps reservations by id.
#include "daemon/reservations.h"

#include <algorithm>

#include "common/deadline.h"
#include "daemon/identity.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// As often as those that wait for memory look for it.
constexpr uint64_t kLookNs = 20'000'000;

}  // namespace

Reservations::Reservations(Journal* journal) : journal_(journal) {
  if (journal_ == nullptr) return;
  const MutexLock lock(mu_);
  for (const Reservation& each : journal_->found().reservations) all_[each.id] = each;
}

std::vector<Reservation> Reservations::Live() {
  std::vector<Reservation> live;
  const uint64_t now_ns = MonotonicNs();
  bool looks;
  {
    const MutexLock lock(mu_);
    for (const auto& [id, each] : all_) live.push_back(each);
    looks = now_ns >= look_ns_;
    if (looks) look_ns_ = now_ns + kLookNs;
  }
  std::vector<std::string> ended;
  std::erase_if(live, [&](const Reservation& each) {
    const bool over = each.until_ns != 0 && now_ns >= each.until_ns;
    if (!over && !(looks && each.pid != 0 && HasEnded(each.pid, each.start_ticks))) return false;
    ended.push_back(each.id);
    return true;
  });
  const MutexLock lock(mu_);
  for (const std::string& id : ended) {
    if (all_.erase(id) != 0 && journal_ != nullptr) journal_->EndReservation(id);
  }
  return live;
}

absl::StatusOr<Reservations::Asked> Reservations::Ask(const std::string& owner) {
  Live();
  const MutexLock lock(mu_);
  const size_t has = size_t(std::count_if(
      all_.begin(), all_.end(), [&](const auto& each) { return each.second.owner == owner; }));
  const auto asking = asked_.find(owner);
  const size_t asks = asking == asked_.end() ? 0 : asking->second;
  if (has + asks >= kMost) {
    return Fail(absl::StatusCode::kResourceExhausted, "TOO_MANY_RESERVATIONS",
                Cat(owner, " has ", has, " reservations already, and waits for ", asks, " more"));
  }
  asked_[owner] = asks + 1;
  return Asked(*this, owner);
}

void Reservations::Forget(const std::string& owner) {
  const MutexLock lock(mu_);
  ForgetLocked(owner);
}

void Reservations::ForgetLocked(const std::string& owner) {
  const auto at = asked_.find(owner);
  if (--at->second == 0) asked_.erase(at);
}

void Reservations::Add(Asked asked, const Reservation& reservation) {
  const MutexLock lock(mu_);
  asked.all_ = nullptr;
  ForgetLocked(asked.owner_);
  all_[reservation.id] = reservation;
  if (journal_ != nullptr) journal_->Reserve(reservation);
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
