// TurnWaits: allocations that wait until the daemon has made room for them, on their way to it.
// Only where this process takes turns with others (PARKADE_WAKE).
#pragma once

#include <atomic>
#include <cstdint>
#include <list>

#include "common/bytes.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "common/result.h"
#include "proto/wire_header.h"

namespace parkade::shim {

class TurnWaits {
 public:
  explicit TurnWaits(bool takes_turns) : takes_turns_(takes_turns) {}

  // Makes the descriptor below; before anything else.
  Result<void> Init();
  bool takes_turns() const { return takes_turns_; }

  // One that waits, for as long as this lives. Application threads; blocks on nothing.
  class Wait {
   public:
    Wait(TurnWaits& all, int device, Bytes bytes);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    // So many would not have been enough: it asks for one more at least.
    void NotEnough(Bytes free);
    // Room may still be made: nobody has refused it, and a daemon was there a short while ago.
    bool goes_on() const;

   private:
    friend class TurnWaits;
    TurnWaits& all_;
    const int device_;
    Bytes bytes_;                 // under TurnWaits::mu_, as what follows
    uint64_t first_reading_ = 0;  // 0: nobody has read it yet
    bool refused_ = false;
  };

  // Agent thread, from here on. An eventfd, readable when Read may have something new, and when a
  // thread has come to a closed gate.
  int fd() const { return fd_.get(); }
  void Empty();
  // What they wait for in all, by ordinal of the device. `reading` rises from time to time.
  void Read(uint64_t reading, Bytes (&bytes)[wire::kMaxDevices]);
  // There will be no room for what was in that reading and those before. How many wait in vain.
  size_t Refuse(uint64_t reading);
  // A daemon hears of them from now on, or does no longer.
  void SetHeard(bool heard);

  // In a forked child; nothing else of this object may be used there.
  void AbandonAfterFork() { fd_.Reset(); }

 private:
  // Physical memory comes in pages of that size.
  static constexpr Bytes kPage = 2_MiB;
  // A daemon that is started again is back within this.
  static constexpr uint64_t kAloneNs = 10'000'000'000;

  const bool takes_turns_;
  Fd fd_;
  std::atomic<uint64_t> alone_since_ns_{0};  // 0: a daemon hears; relaxed, it guards nothing
  mutable Mutex mu_;                         // innermost
  std::list<Wait*> waits_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
