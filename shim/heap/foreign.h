// Foreign: the table of what the application has that the heap does not move: native memory, pools,
// managed memory, arrays, pinned host memory. Keeps the ledger's counts; moves and trims nothing
// itself (pause/foreign_release).
#pragma once

#include <cuda.h>

#include <atomic>
#include <map>
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
  // No effect when it was not added. True when it was.
  bool Remove(uint64_t key);
  // Everything whose address lies in the range.
  void RemoveIn(uint64_t at, Bytes bytes);
  void ForgetContext(CUcontext context);

  // Host memory that the application pins, by its address.
  void Pin(const void* host, Bytes bytes);
  void Unpin(const void* host);

  // Managed memory that lives.
  struct Managed {
    CUdeviceptr base;
    Bytes bytes;
    CUcontext context;
  };
  std::vector<Managed> ListManaged() const;

  // A pool of the application's own lives on `device`; memory was taken from a pool of `device`.
  void AddPool(CUmemoryPool pool, int device);
  void RemovePool(CUmemoryPool pool);
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
  struct Entry {
    wire::ForeignKind kind;
    int device;
    CUcontext context;
    Bytes bytes;
  };
  void Enter(uint64_t key, const Entry& entry);
  // Measured from outside: the ledger gets the difference.
  void SetMeasured(wire::ForeignKind kind, int device, Bytes bytes);

  const Driver& driver_;
  LedgerWriter& ledger_;
  std::atomic<uint64_t> measured_ns_{0};  // when pools were last asked; only for pacing
  mutable Mutex mu_;                      // innermost; the driver is not called while it is held
  std::map<uint64_t, Entry> entries_ GUARDED_BY(mu_);
  std::map<const void*, Bytes> pinned_ GUARDED_BY(mu_);
  std::map<CUmemoryPool, int> pools_ GUARDED_BY(mu_);
  std::set<int> pool_users_ GUARDED_BY(mu_);  // devices whose own pool was used
  std::map<std::pair<wire::ForeignKind, int>, Bytes> measured_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
