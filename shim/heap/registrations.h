// Registrations: memory whose physical pages a network card or a peer knows, held until that ends.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "common/mutex.h"
#include "shim/heap/heap.h"

namespace parkade::shim {

// Application threads, gate open or closed. No driver call.
class Registrations {
 public:
  // Both outlive it.
  Registrations(Heap& heap, LedgerWriter& ledger) : heap_(heap), ledger_(ledger) {}

  // Who registered, and what it got for it: a communicator (null: there is none) and a handle.
  using Key = std::pair<const void*, const void*>;

  // `held` belongs to `key` from now on; one key may have several. The ledger says `why`.
  void Add(Key key, Heap::Held held, const char* why);
  // One registration out of the table, memory held as before: the caller is about to end it. Taken
  // first, since its handle may be somebody else's as soon as it has ended.
  std::optional<Heap::Held> Take(Key key);
  // Ends all of a communicator's.
  void RemoveAll(const void* owner);

 private:
  Heap& heap_;
  LedgerWriter& ledger_;
  Mutex mu_;  // innermost
  std::multimap<Key, Heap::Held> held_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
