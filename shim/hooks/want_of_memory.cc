// Looks at the driver's free memory, and says what was missing.
#include "shim/hooks/want_of_memory.h"

#include <time.h>

#include <atomic>
#include <cstdio>

#include "common/bytes.h"
#include "common/deadline.h"
#include "common/log.h"
#include "shim/cuda/in_shim.h"

namespace parkade::shim {
namespace {

// Nothing announces that memory has become free: the driver has to be asked again. A tenth of what
// a pause takes that makes room.
constexpr timespec kLookAgain{0, 20'000'000};
// No more lines than these in the application's own log: a program may live with failed
// allocations.
constexpr uint64_t kMostLines = 4;
// For its turn an allocation waits as long as that where PARKADE_ALLOC_WAIT says nothing.
constexpr uint64_t kTurnWaitMs = 600'000;

struct Memory {
  size_t free = 0;
  size_t total = 0;
};

Memory Ask(Parts& parts) {
  InShim guard;
  Memory memory;
  if (parts.driver.mem_get_info(&memory.free, &memory.total) != CUDA_SUCCESS) return {};
  return memory;
}

CUdevice CurrentDevice(Parts& parts) {
  CUdevice device = 0;
  parts.driver.ctx_get_device(&device);
  return device;
}

void Note(Parts& parts, size_t bytes, const Memory& memory, uint64_t waited_ms) {
  const CUdevice device = CurrentDevice(parts);
  char text[200];
  const int n =
      snprintf(text, sizeof text,
               "an allocation of %zu bytes on device %d failed: %zu of %zu bytes are free", bytes,
               device, memory.free, memory.total);
  if (waited_ms != 0 && n > 0 && size_t(n) < sizeof text) {
    snprintf(text + n, sizeof text - size_t(n), ", after a wait of %.1f s",
             double(waited_ms) / 1000);
  }
  parts.wants.Add({parts.ledger.AddEvent(text), device, bytes});
  static constinit std::atomic<uint64_t> lines{0};
  if (lines.fetch_add(1, std::memory_order_relaxed) < kMostLines) {
    Log(LogLevel::kWarning, "%s", text);
  }
}

}  // namespace

CUresult WaitForMemory(Parts& parts, size_t bytes, CUresult (*again)(void* arg), void* arg) {
  uint64_t waited_ns = 0;
  Memory memory = Ask(parts);
  // What the whole GPU does not hold no pause makes room for.
  if (bytes > memory.total) {
    Note(parts, bytes, memory, 0);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const bool waits_anyway = parts.alloc_wait_ms != 0;
  const uint64_t most_ns = (waits_anyway ? parts.alloc_wait_ms : kTurnWaitMs) * 1'000'000;
  TurnWaits::Wait turn(parts.turns, CurrentDevice(parts), bytes);
  while (waited_ns < most_ns && (waits_anyway || turn.goes_on())) {
    // The time at the gate, while its own process is paused, is no waiting for memory.
    const uint64_t start_ns = MonotonicNs();
    clock_nanosleep(CLOCK_MONOTONIC, 0, &kLookAgain, nullptr);
    memory = Ask(parts);
    waited_ns += MonotonicNs() - start_ns;
    if (memory.free < bytes) continue;
    const CUresult r = again(arg);
    if (r != CUDA_ERROR_OUT_OF_MEMORY) return r;
    memory = Ask(parts);
    turn.NotEnough(memory.free);
  }
  Note(parts, bytes, memory, waited_ns / 1'000'000);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace parkade::shim
