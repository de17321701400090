// LedgerWriter: the shim's side of the ledger (proto/ledger.h); no system call once the file is
// there, but for growing it.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/bytes.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "common/result.h"
#include "proto/ledger.h"

namespace parkade::shim {

// Every member function may be called from any thread, unless it says otherwise; none blocks on a
// reader.
class LedgerWriter {
 public:
  // Makes the memfd (close-on-exec, sealed against shrinking, MADV_DONTFORK mapping), state
  // kRunning.
  static Result<std::unique_ptr<LedgerWriter>> Create();
  ~LedgerWriter();

  int fd() const { return fd_.get(); }

  // Adds an allocation and returns its slot; `sequence` and `used` of the record are ignored. When
  // the file is full it doubles (one system call, which may fail: then kNoSlot, the allocation
  // works and is counted in `unlisted` of the text).
  static constexpr uint32_t kNoSlot = UINT32_MAX;
  uint32_t Add(const wire::LedgerRecord& record);
  // No effect when the slot no longer holds allocation `number`: it may be freed on another thread
  // between the look at the heap and this call.
  void SetPlace(uint32_t slot, uint64_t number, wire::Place place);
  void SetClass(uint32_t slot, uint64_t number, wire::AllocationClass allocation_class);
  void SetBase(uint32_t slot, uint64_t number, uint64_t base);
  void Remove(uint32_t slot);

  // Totals of one device, by ordinal; out of range is ignored.
  void SetDevice(int ordinal, const unsigned char (&uuid)[16]);
  void AddResident(int ordinal, int64_t delta);
  // In the transition under way, not in the above yet; ClearShifted before it is.
  void AddShifted(int ordinal, int64_t delta);
  void ClearShifted();
  // What is out, and will take HBM again.
  void AddOut(int ordinal, int64_t delta);
  void AddRequested(int ordinal, int64_t delta);
  Bytes requested() const;  // over all devices
  void AddForeign(int ordinal, wire::ForeignKind kind, int64_t delta);
  // Host memory that the application pins.
  void AddPinned(int64_t delta);

  void SetState(wire::ProcessState state);
  wire::ProcessState state() const;
  void BeginTransition(uint64_t op_id, Bytes to_move);
  void AddMoved(Bytes bytes);
  void EndTransition();
  void SetHostPool(Bytes held);
  // Backups that have come to be, or are gone; and those kept of bytes that are in HBM too.
  void AddBackup(int64_t host_bytes, int64_t disk_bytes);
  void AddRetained(int64_t host_bytes, int64_t disk_bytes);
  void SetUnhookedNames(uint64_t count);
  void SetGatedThreads(uint64_t count);
  void SetGateMode(std::optional<wire::GateMode> mode);
  // Keeps the highest. Operation thread.
  void SetEpoch(uint64_t epoch);

  // Settings are lines "name=value (source)". A warning is a sentence, kept once however often it
  // comes; readers find it as a line "warning: ...". What does not fit into the block is cut.
  void SetSettings(std::string_view lines);
  void AddWarning(std::string_view sentence);
  void AddWarnings(std::string_view lines);  // a sentence each
  // Something that happened; the last few are kept, for readers as lines "event: SECONDS sentence",
  // in seconds since 1970. Returns the event's number.
  uint64_t AddEvent(std::string_view sentence);
  // What became known of it later; no effect when it is no longer kept.
  void AddToEvent(uint64_t number, std::string_view words);

  // An optimizer store that was opened; kNoSlot where there are kMaxLedgerStores. `sequence`,
  // `used` and `number` of the record are ignored.
  uint32_t AddStore(const wire::LedgerStore& store);
  // Writes what `change` makes of the record; under the lock.
  template <typename Change>
  void ChangeStore(uint32_t slot, const Change& change) {
    if (header_ == nullptr || slot == kNoSlot) return;
    MutexLock lock(mu_);
    wire::LedgerStore store = stores_[slot];
    change(store);
    WriteStore(slot, store);
  }
  void RemoveStore(uint32_t slot);

  // In a forked child, before anything else there: forgets the mapping without touching the
  // parent's. From then on every call is without effect, and there is no descriptor.
  void AbandonAfterFork();

 private:
  LedgerWriter(Fd fd, void* map);

  template <typename T>
  void Change(uint32_t slot, uint64_t number, T wire::LedgerRecord::*field, T value);
  bool Grow() REQUIRES(mu_);
  void WriteRecord(uint32_t slot, const wire::LedgerRecord& record) REQUIRES(mu_);
  void WriteStore(uint32_t slot, const wire::LedgerStore& store) REQUIRES(mu_);
  void WriteText() REQUIRES(mu_);
  void Store(uint64_t wire::LedgerHeader::*field, uint64_t value);
  void Add(uint64_t wire::LedgerHeader::*field, int64_t delta);
  void AddTo(uint64_t wire::LedgerDevice::*field, int ordinal, int64_t delta);
  void AddTo(uint64_t (wire::LedgerHeader::*by_device)[wire::kMaxDevices], int ordinal,
             int64_t delta);

  Fd fd_;
  // The largest file there can be is mapped from the start, so that growing moves nothing. Null in
  // a forked child.
  wire::LedgerHeader* header_;
  wire::LedgerStore* stores_;
  wire::LedgerRecord* records_;

  Mutex mu_;  // innermost; the mapping has one writer at a time
  uint64_t capacity_ GUARDED_BY(mu_);
  uint32_t used_slots_ GUARDED_BY(mu_) = 0;
  std::vector<uint32_t> free_slots_ GUARDED_BY(mu_);
  uint64_t unlisted_ GUARDED_BY(mu_) = 0;
  uint64_t last_store_ GUARDED_BY(mu_) = 0;
  std::string settings_ GUARDED_BY(mu_);
  std::vector<std::string> warnings_ GUARDED_BY(mu_);
  struct Event {
    uint64_t number;
    std::string line;
  };
  std::vector<Event> events_ GUARDED_BY(mu_);  // oldest first
  uint64_t last_event_ GUARDED_BY(mu_) = 0;
};

}  // namespace parkade::shim
