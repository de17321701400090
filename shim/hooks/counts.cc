// Keeps the counts in constant-initialised atomics, and the ledger's copy up to date.
#include "shim/hooks/counts.h"

#include <atomic>

#include "shim/lifecycle.h"

namespace parkade::shim {
namespace {

constinit std::atomic<uint64_t> unhooked_names{0};
// What has been counted, by hash: libraries ask for the same names again and again. The fullest
// driver has some dozens; what finds no place is counted each time.
constexpr size_t kPlaces = 512;
constinit std::atomic<uint64_t> counted[kPlaces] = {};

uint64_t Hash(const char* name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (; *name != '\0'; ++name) hash = (hash ^ uint8_t(*name)) * 0x100000001b3;
  return hash | 1;  // 0 is an empty place
}

// False when it stands there already. Any thread, also in a signal handler.
bool Enter(uint64_t hash) {
  for (size_t i = 0; i < kPlaces; ++i) {
    std::atomic<uint64_t>& place = counted[(hash / 2 + i) % kPlaces];
    uint64_t there = 0;
    if (place.compare_exchange_strong(there, hash, std::memory_order_relaxed)) return true;
    if (there == hash) return false;
  }
  return true;
}

constinit std::atomic<uint64_t> tracked_calls[kEntryCount] = {};

}  // namespace

void CountUnhookedName(const char* symbol) {
  if (IsGraphicsName(symbol) || !Enter(Hash(symbol))) return;
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
