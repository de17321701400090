// A paused process whose backups are moved between files and host memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "tests/unit/shim/pause/fault_ways.h"

namespace parkade::shim {

using wire::Place;

struct Shifted {
  Freezer::Outcome outcome;
  std::vector<wire::WrongBlock> wrong;
  bool ok() const { return outcome.result.ok(); }
  std::string_view reason() const { return ok() ? "" : outcome.result.error().reason; }
  const wire::Stats& stats() const { return outcome.stats; }
};

// Set by the completion with which none is left; below 0: none does.
inline std::atomic<bool> stop{false};
inline int completions_left = -1;
inline bool CountCompletion(const void*) {
  if (--completions_left == 0) stop = true;
  return false;
}

inline Shifted Shift(ParkedProcess& p, Place to, Bytes host_bytes = 4_GiB) {
  Shifted shifted;
  shifted.outcome = p.freezer.Shift(9, {to, host_bytes}, stop, &shifted.wrong);
  return shifted;
}

inline wire::LedgerHeader Header(const ParkedProcess& p) {
  const auto header = wire::ReadLedgerHeader(p.ledger->fd());
  REQUIRE(header.ok());
  return *header;
}

// Live records at each place.
inline size_t RecordsAt(const ParkedProcess& p, Place place) {
  const auto view = wire::ReadLedger(p.ledger->fd());
  REQUIRE(view.ok());
  return size_t(std::count_if(view->records.begin(), view->records.end(),
                              [place](const auto& r) { return wire::Place(r.place) == place; }));
}

// Paused with all bytes in files, or in host memory with files that they may go on to.
inline std::unique_ptr<ParkedProcess> Paused(Place at, int devices = 2) {
  stop = false;
  auto p = Start(at == Place::kDisk ? kDisk : kAuto, devices);
  EvictionPlan plan;
  plan.chunk_bytes = 2_MiB;
  plan.disk_bytes = 20_MiB;
  if (at == Place::kHost) plan.host_bytes = 4_GiB;
  REQUIRE(p->Pause(at == Place::kDisk ? Policy::kDisk : Policy::kAuto, plan).result.ok());
  return p;
}

// Wherever its backups are by now, it is paused with all of them, and comes back.
inline void RequireComesBack(ParkedProcess& p) {
  REQUIRE(p.Is(ProcessState::kPaused));
  REQUIRE(p.fake.handle_bytes() == 0);
  REQUIRE(Header(p).op_id == 0);
  REQUIRE(p.pool.used() == Header(p).host_backup_bytes);
  REQUIRE(p.Resume().result.ok());
  RequireWhole(p);
}

}  // namespace parkade::shim
