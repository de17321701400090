// ReleaseLane: unmaps pieces and gives their memory to the driver, one after the other, on a thread
// of its own behind the copies.
#pragma once

#include <deque>
#include <optional>

#include "common/mutex.h"
#include "shim/heap/ledger_writer.h"
#include "shim/libc/thread.h"
#include "shim/pause/release_piece.h"

namespace parkade::shim {

// One thread, which has a second one for as long as there is something to release.
class ReleaseLane {
 public:
  // All outlive it. `ledger` shows at once what is released; null: nobody looks.
  ReleaseLane(const Driver& driver, DeviceMemory& memory, LedgerWriter* ledger = nullptr)
      : driver_(driver), memory_(memory), ledger_(ledger) {}
  ~ReleaseLane() { Stop(); }

  // The piece, of which every byte is in its place, is the lane's until Finish or Stop. Where no
  // thread can be had it is released at once. An error is that of an earlier piece as well: once
  // there is one, nothing more is released, and what is not is as it was.
  Result<void> Release(Range& range, Piece& piece);
  // Waits until everything is released.
  Result<void> Finish();
  // Lets go of what is not released yet, and waits for the piece that is being released.
  void Stop();

  Bytes released_bytes() const;

 private:
  struct Item {
    Range* range;
    Piece* piece;
  };
  static void Run(void* self) { static_cast<ReleaseLane*>(self)->Work(); }
  void Work();
  void ReleaseNext() REQUIRES(mu_);

  const Driver& driver_;
  DeviceMemory& memory_;
  LedgerWriter* const ledger_;
  mutable Mutex mu_;  // innermost; released while a piece is
  CondVar changed_;
  std::deque<Item> waiting_ GUARDED_BY(mu_);
  bool ended_ GUARDED_BY(mu_) = false;  // nothing more comes
  std::optional<Error> error_ GUARDED_BY(mu_);
  Bytes released_bytes_ GUARDED_BY(mu_) = 0;
  Thread thread_;  // last: joined before the rest goes
};

}  // namespace parkade::shim
