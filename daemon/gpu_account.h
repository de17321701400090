// GpuAccount: what resumes may count on of the HBM that the driver has free, so that two at once do
// not set out for the same bytes, and those that wait for it get it in their order.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "common/deadline.h"
#include "common/mutex.h"
#include "daemon/gpu_queue.h"
#include "daemon/status.h"

namespace parkade::daemon {

class GpuAccount {
 public:
  using ByGpu = daemon::ByGpu;
  // Bytes that the driver has free on these GPUs now; without those that it does not know.
  using Free = std::function<ByGpu(const std::vector<std::string>& uuids)>;
  // Bytes that reservations keep, of all GPUs.
  using Reserved = std::function<ByGpu()>;

  explicit GpuAccount(
      Free free, Reserved reserved = [] { return ByGpu{}; })
      : free_(std::move(free)), reserved_(std::move(reserved)) {}

  // One resume's claim on free HBM, given back when it ends: by then what it took shows in the
  // driver's figures. One thread.
  class Booking {
   public:
    // At the end of its time a resume tries what the driver's figures allow, since what others have
    // booked may be more than they take; who keeps memory for later must have it beside that.
    enum class Last : uint8_t { kByDriver, kByAccount };
    struct Owner {
      // HBM that its processes hold now. Called from any thread that books, also a moment after the
      // booking has ended.
      std::function<ByGpu()> resident;
      std::function<bool()> gives_up;  // waiting is of no use any more; its own thread
      // Hears what it waits for while it does, and nothing when it does no longer. Its own thread.
      std::function<void(std::vector<GpuWait>)> waits = {};
      std::string name = {};  // of the operation, for who lists the queue
      int32_t priority = 0;
      Last last = Last::kByDriver;
    };
    Booking(GpuAccount& account, Owner owner);
    ~Booking();
    Booking(const Booking&) = delete;
    Booking& operator=(const Booking&) = delete;

    // Books `needed` in place of what was booked before. Waits for its turn and the room until
    // `by`: until then there must be room beside what others have booked and not yet taken; at `by`
    // the driver's word decides, less what is promised to others, reserved, or needed by those
    // before it in the queue. Its place there stays its own until the booking ends. GPUs that the
    // driver does not know have room. RESOURCE_EXHAUSTED (GPU_MEMORY; metadata has booked_bytes,
    // reserved_bytes and ahead_bytes of the GPU that is short); UNAVAILABLE (SHUTTING_DOWN) after
    // Close.
    absl::Status Book(const ByGpu& needed, Deadline by);
    // Books `needed` that is not free yet and will be: what comes free is this booking's. Others
    // count it also when they wait no longer.
    void Promise(const ByGpu& needed);
    // Gives back what is booked, goes back to its place in the queue, and waits for a change, until
    // `by` and 100 ms at most.
    void AwaitChange(Deadline by);
    // In both of them, in all.
    double waited_seconds() const { return double(waited_ns_) / 1e9; }

   private:
    void Tell(std::vector<GpuWait> waits);

    GpuAccount& account_;
    const Owner owner_;
    GpuQueue::Place place_;
    ByGpu needed_;
    uint64_t waited_ns_ = 0;
    bool told_ = false;
  };

  // What is free on a GPU, and what of it others have or will have: booked by resumes that have not
  // taken it yet, reserved, and needed by those that wait with that priority and more.
  struct Room {
    std::optional<Bytes> free;  // empty: the driver does not know the GPU
    Bytes booked = 0;
    Bytes reserved = 0;
    Bytes ahead = 0;
    bool HasFor(Bytes bytes) const {
      return free && *free >= booked + reserved && *free - booked - reserved >= bytes;
    }
    // booked_bytes, reserved_bytes and ahead_bytes, for a refusal.
    Metadata Figures() const;
    // Beside those ahead too, where `leaving` comes free for whoever asks: others have a right to
    // what is free now, not to that.
    bool HasFor(Bytes bytes, Bytes leaving) const {
      return free && *free + leaving >= bytes + std::min(*free, booked + reserved + ahead);
    }
  };
  Room RoomOn(const std::string& uuid, int32_t priority = 0) const EXCLUDES(mu_);
  // Waits until there is room for `bytes`, whoever waits for it, until `by` or until `gives_up`.
  // Says what there is then.
  Room WaitForRoom(const std::string& uuid, Bytes bytes, Deadline by,
                   const std::function<bool()>& gives_up) EXCLUDES(mu_);
  // Who waits for memory of that GPU, in their order.
  std::vector<GpuQueue::Waiter> WaitersOn(const std::string& uuid) const EXCLUDES(mu_);

  // HBM may have become free: those that wait look again.
  void Changed() EXCLUDES(mu_);
  // Ends every wait, now and later.
  void Close() EXCLUDES(mu_);

 private:
  struct Booked {
    ByGpu bytes;
    ByGpu resident_before;
    std::function<ByGpu()> resident;
    bool promised = false;
  };
  // What a booking cannot have of what is free.
  struct Taken {
    ByGpu booked;
    ByGpu promised;  // of it
    ByGpu reserved;
    GpuQueue::Ahead ahead;

    // Booked by others or, at the end of its time, what decides then.
    ByGpu Sum(bool last, Booking::Last how) const;
  };

  // Of all but `booking`, which may be null.
  Taken TakenByOthers(const Booking* booking, const GpuQueue::Place& place, uint64_t* version) const
      EXCLUDES(mu_);
  void Release(const Booking* booking) REQUIRES(mu_);
  void Bump() REQUIRES(mu_);

  const Free free_;
  const Reserved reserved_;
  mutable Mutex mu_;  // innermost; ledgers, reservations and the driver are asked without it
  CondVar changed_;
  std::map<const Booking*, Booked> booked_ GUARDED_BY(mu_);
  GpuQueue queue_ GUARDED_BY(mu_);
  uint64_t version_ GUARDED_BY(mu_) = 0;  // rises with each change of anything here
  bool closed_ GUARDED_BY(mu_) = false;
};

}  // namespace parkade::daemon
