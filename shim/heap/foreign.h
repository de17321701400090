// Foreign: the table of what the application has that the heap does not move: native memory, pools,
// managed memory, arrays, pinned host memory. Keeps the ledger's counts; moves and trims nothing
// itself (pause/foreign_release).
#pragma once

#include <cuda.h>

#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/mutex.h"
#include "proto/ledger.h"
#include "shim/cuda/driver.h"
#include "shim/heap/ledger_writer.h"

namespace parkade::shim {

// Every member function may be called from any thread.
class Foreign {
 public:
  Foreign(const Driver& driver, LedgerWriter& ledger);  // which outlive it

  // What was allocated, by its address or handle, in the current context; counted until it is
  // removed or its context is forgotten.
  void Add(wire::ForeignKind kind, uint64_t key, Bytes bytes);
  // The same for memory of `device` that belongs to no context.
  void AddOn(int device, wire::ForeignKind kind, uint64_t key, Bytes bytes);
  // Counted no longer: to be called before the driver frees it, since its address or handle may be
  // somebody else's as soon as that is done. Nothing where it was not added.
  struct Entry {
    wire::ForeignKind kind;
    int device;
    CUcontext context;
    Bytes bytes;
  };
  std::optional<Entry> Take(uint64_t key);
  // Counts it again: the driver has refused to free it.
  void PutBack(uint64_t key, const Entry& entry) { Enter(key, entry); }
  // Everything whose address lies in the range.
  void RemoveIn(uint64_t at, Bytes bytes);
  void ForgetContext(CUcontext context);

  // Host memory that the application pins, by its address, in the current context; counted until
  // it is unpinned or its context is forgotten.
  void Pin(const void* host, Bytes bytes);
  // As Take and PutBack.
  struct Pinned {
    CUcontext context;
    Bytes bytes;
  };
  std::optional<Pinned> Unpin(const void* host);
  void PutBack(const void* host, const Pinned& pinned);

  // Managed memory that lives.
  struct Managed {
    CUdeviceptr base;
    Bytes bytes;
    CUcontext context;
  };
  std::vector<Managed> ListManaged() const;

  // A pool of the application's own lives on `device`; memory was taken from a pool of `device`.
  void AddPool(CUmemoryPool pool, int device);
  // As Take, with its device; AddPool puts it back.
  std::optional<int> TakePool(CUmemoryPool pool);
  void UsesPools(int device);
  // Pools that may hold memory: those added, and the device's own one where pools are used.
  struct Pool {
    CUmemoryPool pool;
    int device;
  };
  std::vector<Pool> ListPools() const;

  // Asks the driver what pools hold and writes it into the ledger: at once, or, since that costs a
  // call for each pool, at most once a millisecond.
  enum class Measure : uint8_t { kNow, kSometimes };
  void MeasurePools(Measure when);
  // The same for memory nodes of graphs on a device with a context. Returns the bytes.
  Bytes MeasureGraphs(int device);

 private:
  void Enter(uint64_t key, const Entry& entry);
  // Measured from outside: the ledger gets the difference.
  void SetMeasured(wire::ForeignKind kind, int device, Bytes bytes);

  const Driver& driver_;
  LedgerWriter& ledger_;
  std::atomic<uint64_t> measured_ns_{0};  // when pools were last asked; only for pacing
  Mutex asking_mu_;   // held while the driver is asked of pools, so that none of them is destroyed
  mutable Mutex mu_;  // innermost; the driver is not called while it is held
  std::map<uint64_t, Entry> entries_ GUARDED_BY(mu_);
  std::map<const void*, Pinned> pinned_ GUARDED_BY(mu_);
  std::map<CUmemoryPool, int> pools_ GUARDED_BY(mu_);
  std::set<int> pool_users_ GUARDED_BY(mu_);  // devices whose own pool was used
  std::map<std::pair<wire::ForeignKind, int>, Bytes> measured_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
