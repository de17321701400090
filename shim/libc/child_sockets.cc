// A fixed table, so that a fork in the middle of a change finds it whole.
#include "shim/libc/child_sockets.h"

#include <unistd.h>

#include <atomic>

namespace parkade::shim {
namespace {

constexpr int kSlots = 1000;
constinit std::atomic<int> slots[kSlots] = {};  // the descriptor and one; 0: free

}  // namespace

void ChildSockets::Add(int fd) {
  for (std::atomic<int>& slot : slots) {
    int free = 0;
    if (slot.compare_exchange_strong(free, fd + 1, std::memory_order_relaxed)) return;
  }
}

void ChildSockets::Remove(int fd) {
  for (std::atomic<int>& slot : slots) {
    int held = fd + 1;
    if (slot.compare_exchange_strong(held, 0, std::memory_order_relaxed)) return;
  }
}

void ChildSockets::CloseAll() {
  for (std::atomic<int>& slot : slots) {
    const int held = slot.exchange(0, std::memory_order_relaxed);
    if (held != 0) close(held - 1);
  }
}

}  // namespace parkade::shim
