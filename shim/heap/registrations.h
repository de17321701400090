// Registrations: memory whose physical pages a network card or a peer knows, held until that ends.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "shim/heap/heap.h"

namespace parkade::shim {

// Application threads, gate open or closed. No driver call.
class Registrations {
 public:
  explicit Registrations(LedgerWriter& ledger) : ledger_(ledger) {}  // which outlives it

  // Who registered, and what it got for it: a communicator (null: there is none) and a handle.
  using Key = std::pair<const void*, const void*>;

  // `held` belongs to `key` from now on; one key may have several. The ledger says `why`.
  void Add(Key key, Heap::Held held, const char* why);
  // One registration out of the table, or all of a communicator's; the memory is held as before.
  // The caller is about to end them: taken first, since what they are known by may be somebody
  // else's as soon as they have ended.
  using Taken = std::vector<std::pair<Key, Heap::Held>>;
  Taken Take(Key key);
  Taken TakeAll(const void* owner);

 private:
  LedgerWriter& ledger_;
  Mutex mu_;  // innermost
  std::multimap<Key, Heap::Held> held_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
