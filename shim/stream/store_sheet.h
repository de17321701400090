// StoreSheet: what the ledger, and so the daemon, is told of one store: what it is, how far it has
// come, and what its last step took.
#pragma once

#include <atomic>

#include "common/bytes.h"
#include "common/result.h"
#include "common/store/layout.h"
#include "shim/heap/ledger_writer.h"

namespace parkade::shim {

// Every method may be called from any thread. No lock of its own: the record is the ledger's.
class StoreSheet {
 public:
  explicit StoreSheet(LedgerWriter& ledger) : ledger_(ledger) {}  // which outlives it
  ~StoreSheet() { ledger_.RemoveStore(slot_); }
  StoreSheet(const StoreSheet&) = delete;
  StoreSheet& operator=(const StoreSheet&) = delete;

  // From now on the store is listed, if there is room for one more. Once, before all the others.
  void Show(const wire::LedgerStore& store) { slot_ = ledger_.AddStore(store); }

  // A step begins, on slots of so many bytes.
  void Begins(uint64_t step, Bytes device_bytes);
  // Its last byte is where it belongs; `read` and `written` are the store's in all.
  void Commits(uint64_t step, Bytes read, Bytes written);
  // The open step was given up, and the store is at the one before.
  void GivesUp(const Error& why) { Ends(wire::StoreState::kFailed, why); }
  void Tears(const Error& why) { Ends(wire::StoreState::kTorn, why); }
  void SetServing(bool serves);

 private:
  void Ends(wire::StoreState state, const Error& why);

  LedgerWriter& ledger_;
  uint32_t slot_ = LedgerWriter::kNoSlot;
  // Of the step that is open and of the one before, which may still be written: by step modulo 2.
  // Release by the caller's thread, acquire by the write lane's.
  std::atomic<uint64_t> begun_ns_[2] = {0, 0};
};

// What does not change of a store.
wire::LedgerStore DescribeStore(const std::string& name, const store::Layout& layout,
                                const std::vector<std::string>& directories);

}  // namespace parkade::shim
