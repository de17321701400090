// Gate: the switch in front of every driver call that submits work.
//
// Open path: a store to the thread's own slot and one load. Closing: set the switch, membarrier so
// that every thread either sees it or has shown itself inside, then wait until no thread is inside.
// A thread at a closed gate sleeps on a futex, holds no lock, and can be ended by a signal.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "common/deadline.h"
#include "common/result.h"

namespace parkade::shim {

class Gate {
 public:
  // Call around a gated driver call, on any thread. Enter returns when the gate is open. They nest
  // (the driver may call back into a hooked function), and only the outermost Enter waits. The time
  // between them counts as inside: Close waits for it.
  // Inlined even into hundreds of wrappers: a call costs as much as the pass itself.
  [[gnu::always_inline]] static void Enter() {
    if (mine_ == nullptr) [[unlikely]]
      mine_ = Claim();
    Slot& slot = *mine_;
    if (slot.depth++ != 0) return;
    slot.inside.store(1, std::memory_order_relaxed);
    // The compiler may not reorder the two; the processor may, which Close's membarrier makes good.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (state_.load(std::memory_order_acquire) != 0) [[unlikely]]
      EnterSlow(slot);
  }
  [[gnu::always_inline]] static void Leave() {
    Slot& slot = *mine_;
    if (--slot.depth != 0) return;
    slot.inside.store(0, std::memory_order_release);  // partner: the load in AnyInside
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (state_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      WakeCloser();
  }

  // Before a thread asks the driver to begin a capture on `stream`: waits while captures are held
  // back, then counts it. CaptureEnded when the driver refused, when the capture ended, and when
  // the stream is destroyed; for a stream that does not capture it does nothing.
  static void CaptureBegins(CUstream stream);
  static void CaptureEnded(CUstream stream);

  // Once, before the first Close: asks the kernel for membarrier. Any thread.
  static void Init();

  // Holds back new captures and waits until none is under way, then closes the gate and waits until
  // no thread is inside. Past `by`, or soon after `cancel` became true (CANCELLED), all is open as
  // before: FAILED_PRECONDITION, CAPTURE_ACTIVE or BUSY. One closer at a time: the operation
  // thread.
  static Result<void> Close(Deadline by, const std::atomic<bool>& cancel);
  // Also lets captures begin again. Harmless when open.
  static void Open();
  static bool IsClosed() { return (state_.load(std::memory_order_acquire) & kClosed) != 0; }

  // Threads that sleep at the gate now, those that wait to begin a capture included.
  static uint32_t WaitingThreads() { return waiting_.load(std::memory_order_relaxed); }

  // In a forked child: open, no captures, no thread inside.
  static void ResetAfterFork();

 private:
  struct alignas(64) Slot {
    std::atomic<uint32_t> inside;  // written by the owning thread, read by Close
    std::atomic<uint32_t> taken;
    uint32_t depth;  // the owning thread's alone
  };
  struct Chunk;

  static Slot* Claim();
  static void ReleaseSlot(void* slot);
  static void EnterSlow(Slot& slot);
  static void WakeCloser();
  static bool AnyInside();
  static Result<void> HoldCaptures(Deadline by, const std::atomic<bool>& cancel);
  static void LetCapturesBegin();

  static constexpr uint32_t kClosed = 1;
  static constexpr uint32_t kNoMembarrier = 2;  // the kernel refuses it: Enter fences for itself

  static std::atomic<uint32_t> state_;
  static std::atomic<uint32_t> waiting_;
  static std::atomic<uint32_t> left_;  // counts leavers while closing; the closer's futex
  static Chunk first_chunk_;
  static constinit thread_local Slot* mine_;
};

}  // namespace parkade::shim
