// Mutex, MutexLock and CondVar with clang's thread-safety annotations, over pthread and futex.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "common/annotations.h"
#include "common/deadline.h"
#include "common/futex.h"

namespace parkade {

class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void Lock() ACQUIRE() { pthread_mutex_lock(&mutex_); }
  void Unlock() RELEASE() { pthread_mutex_unlock(&mutex_); }
  bool TryLock() TRY_ACQUIRE(true) { return pthread_mutex_trylock(&mutex_) == 0; }
  // In a forked child only, where the owner no longer exists.
  void ResetAfterFork() { mutex_ = PTHREAD_MUTEX_INITIALIZER; }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits measure CLOCK_MONOTONIC. A futex rather than pthread_cond_t: glibc before 2.34 keeps
// pthread_condattr_setclock in libpthread, which the shim may not need.
class CondVar {
 public:
  // Unlocks `mutex`, sleeps until NotifyAll or the deadline, locks it again. May wake for no
  // reason.
  void WaitUntil(Mutex& mutex, Deadline by) REQUIRES(mutex) {
    const uint32_t seen = wakes_.load(std::memory_order_relaxed);
    mutex.Unlock();
    FutexWait(wakes_, seen, by);
    mutex.Lock();
  }
  void NotifyAll() {
    wakes_.fetch_add(1, std::memory_order_relaxed);
    FutexWakeAll(wakes_);
  }

 private:
  std::atomic<uint32_t> wakes_{0};
};

}  // namespace parkade
