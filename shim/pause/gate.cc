// The slow side of the gate: slots, sleeping, closing, and the count of captures.
#include "shim/pause/gate.h"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

Mutex capture_mu;  // innermost
CondVar capture_changed;
bool captures_held GUARDED_BY(capture_mu) = false;
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
constinit std::atomic<uint32_t> Gate::left_{0};
constinit Gate::Chunk Gate::first_chunk_{};
constinit thread_local Gate::Slot* Gate::mine_ = nullptr;

Gate::Slot* Gate::Claim() {
  Chunk* chunk = &first_chunk_;
  for (;;) {
    for (Slot& slot : chunk->slots) {
      uint32_t free = 0;
      if (slot.taken.load(std::memory_order_relaxed) != 0) continue;
      if (!slot.taken.compare_exchange_strong(free, 1, std::memory_order_acquire)) continue;
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

void Gate::EnterSlow(Slot& slot) {
  for (;;) {
    uint32_t state = state_.load(std::memory_order_acquire);
    if ((state & kNoMembarrier) != 0) {
      slot.inside.exchange(1, std::memory_order_seq_cst);
      state = state_.load(std::memory_order_seq_cst);
    }
    if ((state & kClosed) == 0) return;
    slot.inside.store(0, std::memory_order_release);
    WakeCloser();
    waiting_.fetch_add(1, std::memory_order_relaxed);
    FutexWait(state_, state, Deadline::Never());
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    slot.inside.store(1, std::memory_order_seq_cst);
  }
}

void Gate::WakeCloser() {
  left_.fetch_add(1, std::memory_order_release);
  FutexWakeAll(left_);
}

bool Gate::AnyInside() {
  for (Chunk* c = &first_chunk_; c != nullptr; c = c->next.load(std::memory_order_acquire)) {
    for (const Slot& slot : c->slots) {
      if (slot.inside.load(std::memory_order_seq_cst) != 0) return true;
    }
  }
  return false;
}

void Gate::Init() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0) {
    state_.fetch_or(kNoMembarrier, std::memory_order_seq_cst);
  }
}

Result<void> Gate::Close(Deadline by, const std::atomic<bool>& cancel) {
  if (auto held = HoldCaptures(by, cancel); !held.ok()) return held;
  state_.fetch_or(kClosed, std::memory_order_seq_cst);
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  for (;;) {
    const uint32_t seen = left_.load(std::memory_order_acquire);
    if (!AnyInside()) return {};
    if (cancel.load(std::memory_order_acquire)) {
      Open();
      return Cancelled();
    }
    if (by.Passed()) break;
    FutexWait(left_, seen, NextLook(by));
  }
  Open();
  return MakeError(Code::kFailedPrecondition, "BUSY",
                   "an application thread stayed inside a CUDA call; the gate is open again");
}

void Gate::Open() {
  state_.fetch_and(~kClosed, std::memory_order_seq_cst);
  FutexWakeAll(state_);
  LetCapturesBegin();
}

void Gate::LetCapturesBegin() {
  MutexLock lock(capture_mu);
  captures_held = false;
  capture_changed.NotifyAll();
}

Result<void> Gate::HoldCaptures(Deadline by, const std::atomic<bool>& cancel) {
  MutexLock lock(capture_mu);
  captures_held = true;
  while (!Captures().empty()) {
    const bool cancelled = cancel.load(std::memory_order_acquire);
    if (cancelled || by.Passed()) {
      captures_held = false;
      capture_changed.NotifyAll();
      if (cancelled) return Cancelled();
      return MakeError(Code::kFailedPrecondition, "CAPTURE_ACTIVE",
                       "%zu stream captures did not end in time", Captures().size());
    }
    capture_changed.WaitUntil(capture_mu, NextLook(by));
  }
  return {};
}

void Gate::CaptureBegins(CUstream stream) {
  MutexLock lock(capture_mu);
  while (captures_held) {
    waiting_.fetch_add(1, std::memory_order_relaxed);
    capture_changed.WaitUntil(capture_mu, Deadline::Never());
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  Captures().push_back(stream);
}

void Gate::CaptureEnded(CUstream stream) {
  MutexLock lock(capture_mu);
  if (std::erase(Captures(), stream) != 0) capture_changed.NotifyAll();
}

void Gate::ResetAfterFork() {
  capture_mu.ResetAfterFork();
  {
    MutexLock lock(capture_mu);
    captures_held = false;
    Captures().clear();
  }
  state_.fetch_and(~kClosed, std::memory_order_relaxed);
  waiting_.store(0, std::memory_order_relaxed);
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
