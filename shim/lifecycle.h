// Lifecycle: makes the parts of the shim at the first CUDA context and lets go of them after fork.
//
// Before the first context nothing exists: no thread, no connection, no memory. The parts are never
// destroyed: application threads may be inside a hook until the process ends.
#pragma once

#include <cuda.h>

#include <atomic>
#include <string_view>

#include "shim/cuda/contexts.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/streams.h"
#include "shim/heap/foreign.h"
#include "shim/heap/heap.h"
#include "shim/heap/ledger_writer.h"
#include "shim/heap/registrations.h"
#include "shim/heap/turn_waits.h"
#include "shim/heap/wants.h"
#include "shim/ipc/imports.h"
#include "shim/ipc/share_server.h"

namespace parkade::shim {

// What hooks need of the parts.
struct Parts {
  const Driver& driver;
  Contexts& contexts;
  Streams& streams;
  Heap& heap;
  Foreign& foreign;
  Registrations& registrations;
  Wants& wants;
  ShareServer& exports;
  Imports& imports;
  LedgerWriter& ledger;
  std::string_view own_tag;  // of memory that the application gives none
  uint64_t alloc_wait_ms;    // how long an allocation that finds no room waits for some
  TurnWaits& turns;
};

namespace internal {
extern std::atomic<Parts*> live_parts;  // release: all parts are made
}

// Null before the first context, in a forked child until it makes its own, and where the shim steps
// aside (no memfd, no /proc, no threads): calls then pass through.
inline Parts* LiveParts() { return internal::live_parts.load(std::memory_order_acquire); }

// The driver has made or retained `context`, which need not be current. The first call makes the
// parts and starts the agent; every call notes the context. Application threads, inside a hooked
// call; reads the environment the first time.
void ContextMade(SymbolLookup lookup, CUcontext context);

// The driver has destroyed or reset `context`: its memory died with it. Application threads.
void ContextGoes(CUcontext context);

// In the child, after fork. Registered by the first ContextMade.
void AbandonAfterFork();

}  // namespace parkade::shim
