// ForeignRelease: what a pause can do about memory that is not the heap's, short of moving it:
// pools and graphs give back what they keep unused, managed memory goes to the host. Nothing here
// has to be undone, and nothing can fail a pause.
#pragma once

#include <atomic>

#include "shim/cuda/contexts.h"
#include "shim/cuda/driver.h"
#include "shim/heap/foreign.h"
#include "shim/heap/ledger_writer.h"

namespace parkade::shim {

// Host memory that may be taken now, above a reserve for everybody else; asked again before every
// part, since others take it too.
using HostRoom = Bytes (*)();
Bytes HostRoomNow();

class ForeignRelease {
 public:
  // All outlive it.
  ForeignRelease(const Driver& driver, const Contexts& contexts, Foreign& foreign,
                 LedgerWriter& ledger, HostRoom room = HostRoomNow);

  // Gate closed, GPU idle, operation thread. Blocks for as long as managed memory takes to move,
  // and stops early at `cancel`. What the driver refuses becomes a warning.
  void Run(const std::atomic<bool>& cancel);

  // What the host has left, for others who are about to take some.
  Bytes host_room() const { return room_(); }

 private:
  void MoveManaged(const std::atomic<bool>& cancel);
  // Moves as much of one allocation as the host has room for; false when that was not all.
  bool MoveOne(const Foreign::Managed& managed, const std::atomic<bool>& cancel);
  void Warn(CUresult result, const char* what);

  const Driver& driver_;
  const Contexts& contexts_;
  Foreign& foreign_;
  LedgerWriter& ledger_;
  const HostRoom room_;
};

}  // namespace parkade::shim
