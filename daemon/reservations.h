// Reservations: GPU memory that callers have had kept for them, until they release it, its time is
// over, or its process has ended. Nobody announces the last two: who looks sees only what still
// holds.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "daemon/gpu_queue.h"
#include "daemon/journal.h"
#include "daemon/reservation.h"
#include "daemon/selector.h"

namespace parkade::daemon {

class Reservations {
 public:
  // What earlier daemons have kept, in `journal`, which outlives this. Null: nothing.
  explicit Reservations(Journal* journal = nullptr);

  // One that is asked for and may have to wait: it counts as its owner's until it ends.
  class Asked {
   public:
    Asked(Asked&& other) noexcept
        : all_(std::exchange(other.all_, nullptr)), owner_(std::move(other.owner_)) {}
    Asked& operator=(Asked&&) = delete;
    ~Asked() {
      if (all_ != nullptr) all_->Forget(owner_);
    }

   private:
    friend class Reservations;
    Asked(Reservations& all, std::string owner) : all_(&all), owner_(std::move(owner)) {}
    Reservations* all_;
    std::string owner_;
  };
  // RESOURCE_EXHAUSTED (TOO_MANY_RESERVATIONS): the owner has, or asks for, 256.
  absl::StatusOr<Asked> Ask(const std::string& owner) EXCLUDES(mu_);
  // Takes the place of what was asked for, which has the same owner.
  void Add(Asked asked, const Reservation& reservation) EXCLUDES(mu_);
  // The caller's own, or anybody's for one who sees all. NOT_FOUND (NO_RESERVATION).
  absl::StatusOr<Reservation> Find(const Caller& caller, const std::string& id) EXCLUDES(mu_);
  absl::Status Release(const Caller& caller, const std::string& id) EXCLUDES(mu_);
  // Those that the caller may see, by id.
  std::vector<Reservation> List(const Caller& caller) EXCLUDES(mu_);
  // Bytes of all of them.
  ByGpu Kept() EXCLUDES(mu_);

 private:
  static constexpr size_t kMost = 256;

  // Those that hold; the others are forgotten. Reads /proc for those of a process,
  // every 20 ms at most.
  std::vector<Reservation> Live() EXCLUDES(mu_);
  void Forget(const std::string& owner) EXCLUDES(mu_);
  void ForgetLocked(const std::string& owner) REQUIRES(mu_);

  Journal* const journal_;
  mutable Mutex mu_;  // before Journal's; /proc is read without it
  std::map<std::string, Reservation> all_ GUARDED_BY(mu_);
  uint64_t look_ns_ GUARDED_BY(mu_) = 0;                 // not before then at processes
  std::map<std::string, size_t> asked_ GUARDED_BY(mu_);  // by owner; none is 0
};

}  // namespace parkade::daemon
