// The slow side of the gate: slots, sleeping, closing, and the count of captures.
#include "shim/pause/gate.h"

#include <linux/membarrier.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <vector>

#include "common/futex.h"
#include "common/mutex.h"

// glibc since 2.18: runs `f(object)` when the calling thread ends.
extern "C" int __cxa_thread_atexit_impl(void (*f)(void*), void* object, void* dso);
extern "C" void* __dso_handle;

namespace parkade::shim {
namespace {

// A closer looks again at least this often: a cancel raises no wake-up, and without membarrier a
// leaver's can be lost.
constexpr uint64_t kLookAgainMs = 20;
// A thread that launches one call after the other comes back to the gate within this.
constexpr uint64_t kNextCallMs = 2;

Mutex capture_mu;  // innermost
CondVar capture_changed;
bool captures_held GUARDED_BY(capture_mu) = false;
uint32_t captures_waiting GUARDED_BY(capture_mu) = 0;
uint64_t captures_begun GUARDED_BY(capture_mu) = 0;
// The gate was opened for one that waited: it is not held back again before it has begun.
uint64_t captures_due GUARDED_BY(capture_mu) = 0;
std::vector<CUstream>& Captures() REQUIRES(capture_mu) {
  // Made on first use and never destroyed: captures may end during process exit.
  static std::vector<CUstream>* streams = new std::vector<CUstream>;
  return *streams;
}

Deadline NextLook(Deadline by) {
  return by.LeftNs() < kLookAgainMs * 1'000'000 ? by : Deadline::InMs(kLookAgainMs);
}

Error Cancelled() {
  return MakeError(Code::kCancelled, "CANCELLED", "cancelled while the gate was closing");
}

}  // namespace

struct Gate::Chunk {
  Slot slots[512];
  std::atomic<Chunk*> next;
};

constinit std::atomic<uint32_t> Gate::state_{0};
constinit std::atomic<uint32_t> Gate::waiting_{0};
constinit std::atomic<uint32_t> Gate::capturing_{0};
constinit std::atomic<uint32_t> Gate::left_{0};
constinit std::atomic<uint32_t> Gate::openings_{0};
constinit std::atomic<int> Gate::knock_fd_{-1};
constinit std::atomic<bool> Gate::knocked_{false};
constinit std::atomic<uint32_t> Gate::passed_{0};
constinit uint32_t Gate::passed_at_close_ = 0;
constinit Gate::Chunk Gate::first_chunk_{};
constinit thread_local Gate::Slot* Gate::mine_ = nullptr;

Gate::Slot* Gate::Claim() {
  Chunk* chunk = &first_chunk_;
  for (;;) {
    for (Slot& slot : chunk->slots) {
      uint32_t free = 0;
      if (slot.taken.load(std::memory_order_relaxed) != 0) continue;
      if (!slot.taken.compare_exchange_strong(free, 1, std::memory_order_acquire)) continue;
      slot.thread.store(int32_t(syscall(SYS_gettid)), std::memory_order_relaxed);
      __cxa_thread_atexit_impl(ReleaseSlot, &slot, &__dso_handle);
      return &slot;
    }
    Chunk* next = chunk->next.load(std::memory_order_acquire);
    if (next == nullptr) {
      void* memory =
          mmap(nullptr, sizeof(Chunk), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) continue;  // until a thread ends and leaves a slot
      Chunk* fresh = new (memory) Chunk{};
      if (chunk->next.compare_exchange_strong(next, fresh, std::memory_order_acq_rel)) {
        next = fresh;
      } else {
        munmap(memory, sizeof(Chunk));
      }
    }
    chunk = next;
  }
}

// A later destructor of the same thread may enter again; it then claims a slot anew.
void Gate::ReleaseSlot(void* slot) {
  mine_ = nullptr;
  static_cast<Slot*>(slot)->taken.store(0, std::memory_order_release);
}

bool Gate::EnterSlow(Slot& slot, Call call) {
  for (;;) {
    uint32_t state = state_.load(std::memory_order_acquire);
    if ((state & kNoMembarrier) != 0) {
      slot.inside.exchange(1, std::memory_order_seq_cst);
      state = state_.load(std::memory_order_seq_cst);
    }
    if ((state & kClosed) == 0) return true;
    if ((state & kFreesPass) != 0 && call == Call::kFree) return true;
    if ((state & kAllocationsPass) != 0 && call == Call::kAllocation) return true;
    if ((state & kTicket) != 0) {
      // Shown inside and counted before the ticket is gone: whoever takes it back then knows.
      slot.inside.store(1, std::memory_order_seq_cst);
      passed_.fetch_add(1, std::memory_order_seq_cst);
      if (state_.compare_exchange_strong(state, state & ~kTicket, std::memory_order_seq_cst)) {
        WakeCloser();
        return true;
      }
      continue;
    }
    slot.inside.store(0, std::memory_order_release);
    WakeCloser();
    if ((state & kWorkFails) != 0) {
      --slot.depth;
      return false;
    }
    waiting_.fetch_add(1, std::memory_order_relaxed);
    Knock();
    FutexWait(state_, state, Deadline::Never());
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    slot.inside.store(1, std::memory_order_seq_cst);
  }
}

// A futex of its own: at the gate's a ticket wakes one sleeper, which must be able to take it.
void Gate::EnterWhenOpen() {
  if (mine_ == nullptr) mine_ = Claim();
  Slot& slot = *mine_;
  ++slot.depth;
  for (;;) {
    const uint32_t seen = openings_.load(std::memory_order_acquire);
    slot.inside.store(1, std::memory_order_seq_cst);
    if ((state_.load(std::memory_order_seq_cst) & kClosed) == 0) return;
    slot.inside.store(0, std::memory_order_release);
    WakeCloser();
    FutexWait(openings_, seen, Deadline::Never());
  }
}

void Gate::Knock() {
  const int fd = knock_fd_.load(std::memory_order_relaxed);
  if (fd < 0 || knocked_.exchange(true, std::memory_order_relaxed)) return;
  eventfd_write(fd, 1);
}

void Gate::WakeCloser() {
  left_.fetch_add(1, std::memory_order_release);
  FutexWakeAll(left_);
}

void Gate::WakeSleepersBeside() {
  openings_.fetch_add(1, std::memory_order_release);
  FutexWakeAll(openings_);
}

std::optional<int32_t> Gate::ThreadInside() {
  for (Chunk* c = &first_chunk_; c != nullptr; c = c->next.load(std::memory_order_acquire)) {
    for (const Slot& slot : c->slots) {
      if (slot.inside.load(std::memory_order_seq_cst) == 0) continue;
      return slot.thread.load(std::memory_order_relaxed);
    }
  }
  return std::nullopt;
}

void Gate::Init() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0) {
    state_.fetch_or(kNoMembarrier, std::memory_order_seq_cst);
  }
}

Result<void> Gate::Close(Deadline by, const std::atomic<bool>& cancel, bool yields) {
  passed_at_close_ = passed_.load(std::memory_order_seq_cst);
  if (auto held = HoldCaptures(by, cancel); !held.ok()) return held;
  // Of a pause that is in force: while the next one drains and moves, nothing passes.
  state_.fetch_and(~(kFreesPass | kAllocationsPass | kWorkFails), std::memory_order_seq_cst);
  state_.fetch_or(yields ? kClosed | kYields : kClosed, std::memory_order_seq_cst);
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  return WaitUntilEmpty(by, cancel);
}

Result<void> Gate::WaitUntilEmpty(Deadline by, const std::atomic<bool>& cancel) {
  for (;;) {
    const uint32_t seen = left_.load(std::memory_order_acquire);
    const std::optional<int32_t> thread = ThreadInside();
    if (!thread) return {};
    if (cancel.load(std::memory_order_acquire)) return Cancelled();
    if (by.Passed()) {
      return MakeError(Code::kFailedPrecondition, "BUSY", "thread %d stayed inside a CUDA call",
                       *thread);
    }
    FutexWait(left_, seen, NextLook(by));
  }
}

void Gate::StopYielding() { state_.fetch_and(~(kYields | kTicket), std::memory_order_seq_cst); }

bool Gate::Seal() {
  StopYielding();
  return IsClosed() && passed_.load(std::memory_order_seq_cst) == passed_at_close_;
}

void Gate::Nudge() {
  bool opened;
  {
    // HoldCaptures then finds both done, or neither.
    MutexLock lock(capture_mu);
    opened = captures_waiting != 0;
    uint32_t state = state_.load(std::memory_order_acquire);
    do {
      if ((state & kClosed) == 0 || (state & kYields) == 0) return;
    } while (!state_.compare_exchange_weak(state, opened ? state & kNoMembarrier : state | kTicket,
                                           std::memory_order_seq_cst));
    if (opened) {
      captures_due = captures_begun + 1;
      captures_held = false;
      capture_changed.NotifyAll();
    }
  }
  if (opened) {
    FutexWakeAll(state_);
    WakeSleepersBeside();
    WakeCloser();
  } else {
    FutexWake(state_, 1);
  }
}

// Whether so many have got through since passed_at_close_, or the gate was opened for a capture.
bool Gate::AwaitPassed(uint32_t count, Deadline by, const std::atomic<bool>& cancel) {
  for (;;) {
    const uint32_t seen = left_.load(std::memory_order_acquire);
    if (!IsClosed() || passed_.load(std::memory_order_seq_cst) - passed_at_close_ >= count) {
      return true;
    }
    if (cancel.load(std::memory_order_acquire) || by.Passed()) return false;
    FutexWait(left_, seen, NextLook(by));
  }
}

Result<uint32_t> Gate::LetSome(uint32_t calls, Deadline arrival_by, Deadline leave_by,
                               const std::atomic<bool>& cancel) {
  passed_at_close_ = passed_.load(std::memory_order_seq_cst);
  state_.fetch_or(kYields, std::memory_order_seq_cst);
  for (uint32_t count = 1; count <= calls && (count == 1 || IsClosed()); ++count) {
    Nudge();
    if (AwaitPassed(count, count == 1 ? arrival_by : Deadline::InMs(kNextCallMs), cancel)) continue;
    if (count == 1 && arrival_by.Passed()) Nudge();  // for a capture that came since
    break;
  }
  if (Seal()) return 0;
  // None was counted where the gate was opened for a capture.
  const uint32_t passed = std::max(1u, passed_.load(std::memory_order_seq_cst) - passed_at_close_);
  if (auto closed = Close(leave_by, cancel); !closed.ok()) return closed.error();
  return passed;
}

void Gate::Settle(wire::GatedWork work, wire::GatedAllocations allocations) {
  uint32_t bits = kFreesPass;
  if (work == wire::GatedWork::kFail) bits |= kWorkFails;
  if (allocations == wire::GatedAllocations::kPass) bits |= kAllocationsPass;
  state_.fetch_or(bits, std::memory_order_seq_cst);
  FutexWakeAll(state_);
}

void Gate::Open() {
  knocked_.store(false, std::memory_order_relaxed);
  state_.fetch_and(kNoMembarrier, std::memory_order_seq_cst);
  FutexWakeAll(state_);
  WakeSleepersBeside();
  LetCapturesBegin();
}

void Gate::LetCapturesBegin() {
  MutexLock lock(capture_mu);
  captures_held = false;
  capture_changed.NotifyAll();
}

Result<void> Gate::HoldCaptures(Deadline by, const std::atomic<bool>& cancel) {
  MutexLock lock(capture_mu);
  while (captures_waiting != 0 && captures_begun < captures_due && !by.Passed() &&
         !cancel.load(std::memory_order_acquire)) {
    capture_changed.WaitUntil(capture_mu, NextLook(by));
  }
  captures_held = true;
  while (!Captures().empty()) {
    if (cancel.load(std::memory_order_acquire)) return Cancelled();
    if (by.Passed()) {
      return MakeError(Code::kFailedPrecondition, "CAPTURE_ACTIVE",
                       "%zu stream captures did not end in time", Captures().size());
    }
    capture_changed.WaitUntil(capture_mu, NextLook(by));
  }
  return {};
}

void Gate::CaptureBegins(CUstream stream) {
  MutexLock lock(capture_mu);
  ++captures_waiting;
  while (captures_held) {
    waiting_.fetch_add(1, std::memory_order_relaxed);
    capture_changed.WaitUntil(capture_mu, Deadline::Never());
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  --captures_waiting;
  ++captures_begun;
  Captures().push_back(stream);
  capturing_.store(uint32_t(Captures().size()), std::memory_order_relaxed);
  capture_changed.NotifyAll();
}

void Gate::CaptureEnded(CUstream stream) {
  MutexLock lock(capture_mu);
  if (std::erase(Captures(), stream) == 0) return;
  capturing_.store(uint32_t(Captures().size()), std::memory_order_relaxed);
  capture_changed.NotifyAll();
}

void Gate::ResetAfterFork() {
  capture_mu.ResetAfterFork();
  {
    MutexLock lock(capture_mu);
    captures_held = false;
    captures_waiting = 0;
    Captures().clear();
    capturing_.store(0, std::memory_order_relaxed);
  }
  state_.fetch_and(kNoMembarrier, std::memory_order_relaxed);
  waiting_.store(0, std::memory_order_relaxed);
  knock_fd_.store(-1, std::memory_order_relaxed);
  knocked_.store(false, std::memory_order_relaxed);
  for (Chunk* c = &first_chunk_; c != nullptr; c = c->next.load(std::memory_order_relaxed)) {
    for (Slot& slot : c->slots) {
      if (&slot == mine_) continue;
      slot.inside.store(0, std::memory_order_relaxed);
      slot.depth = 0;
      slot.taken.store(0, std::memory_order_relaxed);
    }
  }
}

}  // namespace parkade::shim
