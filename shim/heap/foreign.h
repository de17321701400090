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

  // --- foreign_pools.cc: pools and graph memory, which the driver is asked about ---

  // A pool that the application has made lives on `device`.
  void AddPool(CUmemoryPool pool, int device);
  // Memory was taken on `device` from the pool that it has now: its own, or one that the
  // application has set. The driver is asked once which, for that may have been before there was a
  // context and so before this was there, but not where that could harm a capture.
  void UsesPoolOf(int device, bool capturing);
  bool HasPool(CUmemoryPool pool) const;
  // As Take, with its device; AddPool puts it back. From then on nobody asks the driver about it.
  std::optional<int> TakePool(CUmemoryPool pool);
  // A graph has memory nodes on `device`.
  void AddGraphMemory(int device);
  // Whether any has: one load.
  bool has_graph_memory() const { return has_graph_memory_.load(std::memory_order_relaxed); }

  // Around a driver call that may end the device's primary context, and with it pools and graph
  // memory: nobody asks the driver about them meanwhile.
  void DeviceMayEnd(int device);
  void DeviceStays(int device);
  void DeviceEnded(int device);

  // Asks the driver what pools, or graphs, hold and writes it into the ledger: at once, or, since
  // that costs a call for each, at most once a millisecond.
  enum class Measure : uint8_t { kNow, kSometimes };
  void MeasurePools(Measure when);
  void MeasureGraphs(Measure when);
  // Gives back what pools, or graphs of a device with a context, keep unused, and measures. What
  // the driver refused first.
  CUresult TrimPools();
  CUresult TrimGraphs(int device);

 private:
  void Enter(uint64_t key, const Entry& entry);
  // Whether it is time to measure again; remembers that it was.
  static bool IsTime(Measure when, std::atomic<uint64_t>& last_ns);
  CUmemoryPool DefaultPool(int device) const;  // null: the driver does not say
  // Without those of devices that may be ending.
  std::map<CUmemoryPool, int> AskablePools() const REQUIRES(asking_mu_);
  bool IsEnding(int device) const;
  void MeasurePoolsLocked() REQUIRES(asking_mu_);
  Bytes MeasureGraph(int device) REQUIRES(asking_mu_);
  // Measured from outside: the ledger gets the difference.
  void SetMeasured(wire::ForeignKind kind, int device, Bytes bytes);

  const Driver& driver_;
  LedgerWriter& ledger_;
  std::atomic<uint64_t> pools_measured_ns_{0}, graphs_measured_ns_{0};  // only for pacing
  std::atomic<bool> has_graph_memory_{false};
  // Held while the driver is asked about pools and graph memory, so that none of them ends, and
  // until the answer is written. Before mu_.
  Mutex asking_mu_;
  mutable Mutex mu_;  // innermost; the driver is not called while it is held
  std::map<uint64_t, Entry> entries_ GUARDED_BY(mu_);
  std::map<const void*, Pinned> pinned_ GUARDED_BY(mu_);
  std::map<CUmemoryPool, int> pools_ GUARDED_BY(mu_);
  std::set<int> pool_devices_ GUARDED_BY(mu_);   // whose own pool may hold memory
  std::set<int> asked_devices_ GUARDED_BY(mu_);  // whose pool at the first use is known
  std::set<int> graph_devices_ GUARDED_BY(mu_);
  std::set<int> ending_ GUARDED_BY(mu_);  // devices whose primary context may be ending
  std::map<std::pair<wire::ForeignKind, int>, Bytes> measured_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
