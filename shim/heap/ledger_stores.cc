// The part of the ledger that lists optimizer stores.
#include <stddef.h>

#include "shim/heap/ledger_writer.h"
#include "shim/heap/write_locked.h"

namespace parkade::shim {

uint32_t LedgerWriter::AddStore(const wire::LedgerStore& store) {
  if (header_ == nullptr) return kNoSlot;
  MutexLock lock(mu_);
  for (uint32_t slot = 0; slot < wire::kMaxLedgerStores; ++slot) {
    if (stores_[slot].used != 0) continue;
    wire::LedgerStore written = store;
    written.used = 1;
    written.number = ++last_store_;
    WriteStore(slot, written);
    return slot;
  }
  return kNoSlot;
}

void LedgerWriter::RemoveStore(uint32_t slot) {
  if (header_ == nullptr || slot == kNoSlot) return;
  MutexLock lock(mu_);
  WriteStore(slot, {});
}

void LedgerWriter::WriteStore(uint32_t slot, const wire::LedgerStore& store) {
  constexpr size_t kFrom = offsetof(wire::LedgerStore, used);
  wire::LedgerStore* to = &stores_[slot];
  WriteLocked(to->sequence, reinterpret_cast<char*>(to) + kFrom,
              reinterpret_cast<const char*>(&store) + kFrom, sizeof store - kFrom);
}

}  // namespace parkade::shim
