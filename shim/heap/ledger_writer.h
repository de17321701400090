// LedgerWriter: the shim's side of the ledger (proto/ledger.h); no system call once the file is
// there.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "common/fd.h"
#include "common/mutex.h"
#include "proto/ledger.h"

namespace parkade::shim {

class LedgerWriter {
 public:
  // Makes the memfd (close-on-exec, sealed against shrinking, MADV_DONTFORK mapping), state
  // kRunning.
  static Result<std::unique_ptr<LedgerWriter>> Create();
  ~LedgerWriter();

  int fd() const { return fd_.get(); }

  // Adds an allocation and returns its slot. When the file is full it doubles (one system call,
  // which may fail: then kNoSlot, the allocation works and is counted in `unlisted` of the text).
  static constexpr uint32_t kNoSlot = UINT32_MAX;
  uint32_t Add(const wire::LedgerRecord& record);
  void SetPlace(uint32_t slot, wire::Place place);
  void Remove(uint32_t slot);

  // Totals of one device, by ordinal; out of range is ignored.
  void SetDevice(int ordinal, const unsigned char (&uuid)[16]);
  void AddResident(int ordinal, int64_t delta);
  void AddRequested(int ordinal, int64_t delta);
  void AddForeign(int ordinal, int64_t delta);

  void SetState(wire::ProcessState state);
  wire::ProcessState state() const;
  void BeginTransition(uint64_t op_id, Bytes to_move);
  void AddMoved(Bytes bytes);
  void EndTransition();
  void SetHostPool(Bytes held, Bytes backup);
  void SetDiskBackup(Bytes bytes);
  void SetUnhookedNames(uint64_t count);
  void SetGatedThreads(uint64_t count);

  // Lines "name=value (source)" and "warning: ..."; AddWarning keeps each distinct text once.
  void SetSettings(std::string_view lines);
  void AddWarning(std::string_view line);

  // In a forked child: forgets the mapping without touching the parent's.
  void AbandonAfterFork();
};

}  // namespace parkade::shim
