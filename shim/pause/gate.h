// Gate: the switch in front of every driver call that submits work.
//
// Open path: a store to the thread's own slot and one load. Closing: set the switch, membarrier so
// that every thread sees it or has shown itself inside, then wait until no thread is inside. A
// thread at a closed gate sleeps on a futex, holds no lock, and can be ended by a signal.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/deadline.h"
#include "common/result.h"

namespace parkade::shim {

class Gate {
 public:
  // Call around a gated driver call, on any thread. Enter returns when the gate is open; it nests
  // (the driver may call back into a hooked function), and only the outermost call waits. The
  // driver call's time inside counts as "inside": Close waits for it.
  static void Enter() {
    Slot& slot = *Mine();
    if (slot.depth++ != 0) return;
    slot.inside.store(1, std::memory_order_relaxed);
    // The compiler may not reorder; the processor may, which Close's membarrier makes good.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (__builtin_expect(closed_.load(std::memory_order_acquire) != 0, 0)) EnterSlow(slot);
  }
  static void Leave() {
    Slot& slot = *Mine();
    if (--slot.depth != 0) return;
    slot.inside.store(0, std::memory_order_release);  // read by Close
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (__builtin_expect(closed_.load(std::memory_order_relaxed) != 0, 0)) WakeCloser();
  }

  // A thread that begins a stream capture: waits while captures are held back or the gate is
  // closed, then counts the capture until CaptureEnded (or CaptureFailed when the driver refused).
  static void CaptureBegins();
  static void CaptureEnded();

  // Holds back new captures and waits until none is under way, then closes the gate and waits until
  // no thread is inside a gated call. Past `by` everything is open as before: FAILED_PRECONDITION
  // with CAPTURE_ACTIVE or BUSY. One closer at a time: the operation thread.
  static Result<void> Close(Deadline by);
  static void Open();
  static bool IsClosed() { return closed_.load(std::memory_order_acquire) != 0; }

  // Threads that sleep at the gate now.
  static uint32_t WaitingThreads();

  // In a forked child: open, and no thread inside but this one.
  static void ResetAfterFork();

 private:
  struct alignas(64) Slot {
    std::atomic<uint32_t> inside;  // partner: Close
    uint32_t depth;                // the owning thread's alone
    std::atomic<uint32_t> taken;   // claimed by a live thread
  };
  static Slot* Mine();
  static void EnterSlow(Slot& slot);
  static void WakeCloser();

  static std::atomic<uint32_t> closed_;
};

}  // namespace parkade::shim
