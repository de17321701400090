// GpuAccount: what resumes may count on of the HBM that the driver has free, so that two at once do
// not set out for the same bytes.
#pragma once

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

namespace parkade::daemon {

class GpuAccount {
 public:
  using ByGpu = std::map<std::string, Bytes>;  // by uuid
  // Bytes that the driver has free on these GPUs now; without those that it does not know.
  using Free = std::function<ByGpu(const std::vector<std::string>& uuids)>;

  explicit GpuAccount(Free free) : free_(std::move(free)) {}

  // One resume's claim on free HBM, given back when it ends: by then what it took shows in the
  // driver's figures. One thread.
  class Booking {
   public:
    // Both are called from any thread that books, also a moment after the booking has ended.
    struct Owner {
      std::function<ByGpu()> resident;  // HBM that its processes hold now
      std::function<bool()> gives_up;   // waiting is of no use any more
    };
    Booking(GpuAccount& account, Owner owner);
    ~Booking();
    Booking(const Booking&) = delete;
    Booking& operator=(const Booking&) = delete;

    // Books `needed` in place of what was booked before. Waits for it until `by`: until then there
    // must be room beside what others have booked and not yet taken; at `by` the driver's word
    // decides, less what is promised to others. GPUs that the driver does not know have room.
    // RESOURCE_EXHAUSTED (GPU_MEMORY); UNAVAILABLE (SHUTTING_DOWN) after Close.
    absl::Status Book(const ByGpu& needed, Deadline by);
    // Books `needed` that is not free yet and will be: what comes free is this booking's. Others
    // count it also when they wait no longer.
    void Promise(const ByGpu& needed);
    // Gives back what is booked and waits for a change, until `by` and 100 ms at most.
    void AwaitChange(Deadline by);
    // In both of them, in all.
    double waited_seconds() const { return double(waited_ns_) / 1e9; }

   private:
    GpuAccount& account_;
    const Owner owner_;
    uint64_t waited_ns_ = 0;
  };

  // What is free on a GPU, and what of it is booked by resumes that have not taken it yet.
  struct Room {
    std::optional<Bytes> free;  // empty: the driver does not know the GPU
    Bytes booked = 0;
    bool HasFor(Bytes bytes) const { return free && *free >= booked && *free - booked >= bytes; }
  };
  Room RoomOn(const std::string& uuid) const EXCLUDES(mu_);
  // Waits until there is room for `bytes`, until `by` or until `gives_up`. Says what there is then.
  Room WaitForRoom(const std::string& uuid, Bytes bytes, Deadline by,
                   const std::function<bool()>& gives_up) EXCLUDES(mu_);

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
  struct Taken {
    ByGpu all;
    ByGpu promised;  // of it
  };

  Taken BookedByOthers(const Booking* booking, uint64_t* version) const EXCLUDES(mu_);
  void Release(const Booking* booking) REQUIRES(mu_);

  const Free free_;
  mutable Mutex mu_;  // innermost; ledgers and the driver are asked without it
  CondVar changed_;
  std::map<const Booking*, Booked> booked_ GUARDED_BY(mu_);
  uint64_t version_ GUARDED_BY(mu_) = 0;  // rises with each change of anything here
  bool closed_ GUARDED_BY(mu_) = false;
};

}  // namespace parkade::daemon
