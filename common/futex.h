// The two futex calls that the gate, CondVar and process-wide waits are built on.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>

#include "common/deadline.h"

namespace parkade {

// Sleeps while *word == expected, until woken, a signal or the deadline. May wake for no reason:
// the caller looks at its condition again. Private to the process.
inline void FutexWait(const std::atomic<uint32_t>& word, uint32_t expected, Deadline by) {
  const timespec at = by.At();
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
          by.IsNever() ? nullptr : &at, nullptr, FUTEX_BITSET_MATCH_ANY);
}

// Wakes `count` sleepers at most, in the order in which they went to sleep.
inline void FutexWake(const std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, nullptr, nullptr, 0);
}

inline void FutexWakeAll(const std::atomic<uint32_t>& word) { FutexWake(word, INT_MAX); }

}  // namespace parkade
