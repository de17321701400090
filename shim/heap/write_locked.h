// The writer's side of the ledger's seqlocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

namespace parkade::shim {

// Writes what a seqlock guards: `sequence` odd, the words, `sequence` even again. The
// partner is the reader's copies in proto/ledger.cc. Every store is a release: no word may become
// visible before the odd number. One release fence would say the same, but tsan knows no fences.
inline void WriteLocked(uint32_t& sequence, void* to, const void* from, size_t bytes) {
  std::atomic_ref<uint32_t> guard(sequence);
  const uint32_t before = guard.load(std::memory_order_relaxed);
  guard.store(before + 1, std::memory_order_relaxed);
  auto* words = static_cast<uint32_t*>(to);
  for (size_t i = 0; i < bytes / sizeof(uint32_t); ++i) {
    uint32_t word;
    memcpy(&word, static_cast<const char*>(from) + i * sizeof word, sizeof word);
    std::atomic_ref(words[i]).store(word, std::memory_order_release);
  }
  guard.store(before + 2, std::memory_order_release);
}

}  // namespace parkade::shim
