// Keeps the counts in constant-initialised atomics, and the ledger's copy up to date.
#include "shim/hooks/counts.h"

#include <atomic>

#include "shim/lifecycle.h"

namespace parkade::shim {
namespace {

constinit std::atomic<uint64_t> unhooked_names{0};
constinit std::atomic<uint64_t> tracked_calls[kEntryCount] = {};

}  // namespace

void CountUnhookedName(const char* symbol) {
  if (IsGraphicsName(symbol)) return;
  const uint64_t count = unhooked_names.fetch_add(1, std::memory_order_relaxed) + 1;
  Parts* parts = LiveParts();
  if (parts != nullptr) parts->ledger.SetUnhookedNames(count);
}

uint64_t UnhookedNames() { return unhooked_names.load(std::memory_order_relaxed); }

void CountTrackedCall(Entry entry) {
  tracked_calls[int(entry)].fetch_add(1, std::memory_order_relaxed);
}

uint64_t TrackedCalls(Entry entry) {
  return tracked_calls[int(entry)].load(std::memory_order_relaxed);
}

}  // namespace parkade::shim
