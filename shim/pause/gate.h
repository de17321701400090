// Gate: the switch in front of every driver call that submits work.
//
// Open path: a store to the thread's own slot and one load. Closing: set the switch, membarrier so
// that every thread either sees it or has shown itself inside, then wait until no thread is inside.
// A thread at a closed gate sleeps on a futex, holds no lock, and can be ended by a signal.
//
// Open, then closed; from then on single calls may be let through, for peers that wait for them
// (LetSome, Nudge), until it is sealed (Seal). Once nothing can refuse the pause any more, work may
// fail or allocations pass instead of waiting (Settle).
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "common/deadline.h"
#include "common/result.h"
#include "proto/wire.h"

namespace parkade::shim {

class Gate {
 public:
  enum class Call : uint8_t { kWork, kAllocation, kFree };

  // Call around a gated driver call, on any thread. Enter returns true when the call may go to the
  // driver, and Leave must then follow; false when it is to fail, because the gate is closed and
  // that was asked for. They nest (the driver may call back into a hooked function), and only the
  // outermost Enter waits. The time between them counts as inside: Close waits for it.
  // Inlined even into hundreds of wrappers: a call costs as much as the pass itself.
  [[nodiscard, gnu::always_inline]] static bool Enter(Call call = Call::kWork) {
    if (mine_ == nullptr) [[unlikely]]
      mine_ = Claim();
    Slot& slot = *mine_;
    if (slot.depth++ != 0) return true;
    slot.inside.store(1, std::memory_order_relaxed);
    // The compiler may not reorder the two; the processor may, which Close's membarrier makes good.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (state_.load(std::memory_order_acquire) != 0) [[unlikely]]
      return EnterSlow(slot, call);
    return true;
  }
  [[gnu::always_inline]] static void Leave() {
    Slot& slot = *mine_;
    if (--slot.depth != 0) return;
    slot.inside.store(0, std::memory_order_release);  // partner: the load in ThreadInside
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (state_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      WakeCloser();
  }

  // For a thread of the shim's that works beside the application: as Enter, but it is never let
  // through a closed gate and never refused: it waits until the gate opens. Not nested.
  static void EnterWhenOpen();

  // Before a thread asks the driver to begin a capture on `stream`: waits while captures are held
  // back, then counts it. CaptureEnded when the driver refused, when the capture ended, and when
  // the stream is destroyed; for a stream that does not capture it does nothing.
  static void CaptureBegins(CUstream stream);
  static void CaptureEnded(CUstream stream);
  // Whether any is counted now. One load.
  static bool Capturing() { return capturing_.load(std::memory_order_relaxed) != 0; }

  // Once, before the first Close: asks the kernel for membarrier. Any thread.
  static void Init();

  // Holds back new captures and waits until none is under way, then closes the gate and waits until
  // no thread is inside. Past `by`, or soon after `cancel` became true (CANCELLED), an error:
  // FAILED_PRECONDITION CAPTURE_ACTIVE, or BUSY with the gate closed. Call Open after an error. One
  // closer at a time: the operation thread. Where the gate is closed already it stays so, and
  // without `yields` Nudge then does nothing.
  static Result<void> Close(Deadline by, const std::atomic<bool>& cancel, bool yields = true);

  // Ends what Close began: until the next Close nothing gets through. False when something has got
  // through since the last one: close and drain again. The closer.
  static bool Seal();

  // As Seal, on any thread, and without the answer.
  static void StopYielding();

  // Between Close and Seal: lets one call through, that of the thread which has waited longest.
  // Where a thread waits to begin a capture, all goes through until that capture has ended: it
  // would never have its turn among threads that come again and again. Otherwise does nothing. Any
  // thread; blocks on nothing.
  static void Nudge();

  // At a sealed gate: Nudge, again for each call that comes, up to `calls` of them, and then Close.
  // Ends early when the next one does not come soon. Returns how many came; none, and sealed again,
  // when the first has not by `arrival_by`. Errors and caller as Close.
  static Result<uint32_t> LetSome(uint32_t calls, Deadline arrival_by, Deadline leave_by,
                                  const std::atomic<bool>& cancel);

  // The pause is in force: from now until Open frees pass, and as asked for, work that is or comes
  // here fails instead of waiting and allocations pass. While the gate is closed.
  static void Settle(wire::GatedWork work, wire::GatedAllocations allocations);

  // Also lets captures begin again. Harmless when open.
  static void Open();
  static bool IsClosed() { return (state_.load(std::memory_order_acquire) & kClosed) != 0; }

  // Where a thread that has to wait at the gate says so, for an owner that is asleep: an eventfd,
  // once for each time that the gate closes. Before the first Close.
  static void SetKnock(int eventfd) { knock_fd_.store(eventfd, std::memory_order_relaxed); }

  // Threads that sleep at the gate now, those that wait to begin a capture included.
  static uint32_t WaitingThreads() { return waiting_.load(std::memory_order_relaxed); }

  // In a forked child: open, no captures, no thread inside.
  static void ResetAfterFork();

 private:
  struct alignas(64) Slot {
    std::atomic<uint32_t> inside;  // written by the owning thread, read by Close
    std::atomic<uint32_t> taken;
    std::atomic<int32_t> thread;  // the owner's id, for messages
    uint32_t depth;               // the owning thread's alone
  };
  struct Chunk;

  static Slot* Claim();
  static void ReleaseSlot(void* slot);
  static bool EnterSlow(Slot& slot, Call call);
  static void WakeCloser();
  static void WakeSleepersBeside();
  static void Knock();
  static std::optional<int32_t> ThreadInside();
  static bool AwaitPassed(uint32_t count, Deadline by, const std::atomic<bool>& cancel);
  static Result<void> WaitUntilEmpty(Deadline by, const std::atomic<bool>& cancel);
  static Result<void> HoldCaptures(Deadline by, const std::atomic<bool>& cancel);
  static void LetCapturesBegin();

  static constexpr uint32_t kClosed = 1;
  static constexpr uint32_t kNoMembarrier = 2;  // the kernel refuses it: Enter fences for itself
  static constexpr uint32_t kTicket = 4;        // one call may pass, and takes this away
  static constexpr uint32_t kFreesPass = 8;
  static constexpr uint32_t kAllocationsPass = 16;
  static constexpr uint32_t kWorkFails = 32;
  static constexpr uint32_t kYields = 64;  // between Close and Seal

  static std::atomic<uint32_t> state_;
  static std::atomic<uint32_t> waiting_;
  static std::atomic<uint32_t> capturing_;  // how many are counted
  static std::atomic<uint32_t> left_;  // counts leavers and takers of a ticket; the closer's futex
  static std::atomic<uint32_t> openings_;  // counts them; the futex of EnterWhenOpen
  static std::atomic<int> knock_fd_;       // -1: nobody wants to hear it
  static std::atomic<bool> knocked_;       // since the gate closed
  static std::atomic<uint32_t> passed_;    // counts what has got through a closed gate
  static uint32_t passed_at_close_;        // the closer's
  static Chunk first_chunk_;
  static constinit thread_local Slot* mine_;
};

}  // namespace parkade::shim
