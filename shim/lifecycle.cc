// Wires the parts of the shim together.
#include "shim/lifecycle.h"

#include <cstdlib>
#include <memory>

#include "common/log.h"
#include "common/mutex.h"
#include "shim/agent/agent.h"
#include "shim/agent/own_pauses.h"
#include "shim/agent/surroundings.h"
#include "shim/cuda/scoped_context.h"
#include "shim/heap/saver_settings.h"
#include "shim/libc/child_sockets.h"
#include "shim/pause/drain.h"
#include "shim/pause/foreign_release.h"
#include "shim/pause/freezer.h"
#include "shim/pause/gate.h"
#include "shim/pause/host_pool.h"
#include "shim/stream/stores.h"

// glibc since 2.3: what pthread_atfork calls, which older glibc keeps in libpthread.
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* dso);
extern "C" void* __dso_handle;

namespace parkade::shim {
namespace {

struct Runtime {
  Runtime(const Driver& d, Settings s, const Identity& i, std::unique_ptr<LedgerWriter> l)
      : driver(d), settings(std::move(s)), identity(i), ledger(std::move(l)) {}

  const Driver driver;
  const Settings settings;
  const Identity identity;
  const std::unique_ptr<LedgerWriter> ledger;
  Contexts contexts;
  Streams streams;
  Heap heap{driver, *ledger, contexts};
  Foreign foreign{driver, *ledger};
  Registrations registrations{*ledger};
  Wants wants;
  ShareServer exports{driver, heap};
  Imports imports{driver, heap.implicit_wait()};
  HostPool pool{driver};
  Drain drain{driver, contexts, streams, heap.implicit_wait()};
  ForeignRelease release{driver, contexts, foreign, *ledger};
  Freezer freezer{driver, heap, *ledger, pool, drain, exports, imports, release};
  Operations operations{freezer, PauseHooks::Get(), driver, *ledger, settings.elision};
  OwnPauses own_pauses{heap, freezer, operations, *ledger};
  StepEngine::Surroundings stores{driver, contexts, pool, *ledger};
  Agent agent{settings, identity, *ledger, operations, wants};
  Parts parts{driver, contexts, streams, heap,    foreign,      registrations,
              wants,  exports,  imports, *ledger, settings.tag, settings.alloc_wait_ms};
};

// Innermost. Held while the parts are made, /proc read and the agent started: once in a process,
// and whoever waits for it could not go on without the parts. Nothing in the driver is called under
// it.
Mutex make_mu;
Runtime* runtime GUARDED_BY(make_mu) = nullptr;
bool stepped_aside GUARDED_BY(make_mu) = false;
bool fork_registered GUARDED_BY(make_mu) = false;

const char* Environment(const char* name) { return getenv(name); }

Result<Runtime*> Make(SymbolLookup lookup) {
  auto identity = ReadIdentity();
  if (!identity.ok()) return identity.error();
  auto ledger = LedgerWriter::Create();
  if (!ledger.ok()) return ledger.error();
  Settings settings = ReadSettings(Environment);
  SetLog("libparkade", settings.log_level);
  SaverSettings::Mine();  // reads its variables here, since other threads of ours may not
  const Driver driver = LoadDriver(lookup);
  const Surroundings surroundings = LookAround(driver, ReadHost());
  settings.lines += surroundings.lines + ReadTools(Environment);
  settings.warnings += surroundings.warnings;
  (*ledger)->SetSettings(settings.lines);
  (*ledger)->AddWarnings(settings.warnings);
  auto made = std::make_unique<Runtime>(driver, std::move(settings), *identity, std::move(*ledger));
  if (auto r = made->operations.Init(); !r.ok()) return r.error();
  if (auto r = made->wants.Init(); !r.ok()) return r.error();
  Gate::Init();
  if (auto r = made->agent.Start(); !r.ok()) return r.error();
  return made.release();
}

// The one line an application sees when Parkade cannot work in it.
void StepAside(const Error& e) {
  Log(LogLevel::kWarning, "steps aside, nothing can be paused in this process: %s (%s)", e.what,
      e.reason);
}

}  // namespace

namespace internal {
constinit std::atomic<Parts*> live_parts{nullptr};
}

void ContextMade(SymbolLookup lookup, CUcontext context) {
  Runtime* made;
  {
    MutexLock lock(make_mu);
    if (stepped_aside) return;
    if (!fork_registered) {
      fork_registered = true;
      __register_atfork(nullptr, nullptr, AbandonAfterFork, &__dso_handle);
    }
    if (runtime == nullptr) {
      SetLog("libparkade", LogLevel::kWarning);
      auto result = Make(lookup);
      if (!result.ok()) {
        stepped_aside = true;
        StepAside(result.error());
        return;
      }
      runtime = *result;
      internal::live_parts.store(&runtime->parts, std::memory_order_release);
      OwnPauses::SetLive(&runtime->own_pauses);
      Stores::SetLive(&runtime->stores);
    }
    made = runtime;
  }
  CUdevice device = 0;
  {
    ScopedContext current(made->driver, context);
    if (current.status() != CUDA_SUCCESS) return;
    if (made->driver.ctx_get_device(&device) != CUDA_SUCCESS) return;
  }
  if (!made->contexts.Add(context, device)) return;
  made->heap.implicit_wait().Prepare(context);
  CUuuid uuid;
  if (made->driver.device_get_uuid(&uuid, device) == CUDA_SUCCESS) {
    made->ledger->SetDevice(device, reinterpret_cast<const unsigned char(&)[16]>(uuid.bytes));
  }
}

void ContextGoes(CUcontext context) {
  Parts* parts = LiveParts();
  if (parts == nullptr) return;
  parts->heap.ForgetContext(context);
  parts->foreign.ForgetContext(context);
  parts->imports.ForgetContext(context);
  parts->streams.RemoveAll(context);
  parts->contexts.Remove(context);
}

void AbandonAfterFork() {
  internal::live_parts.store(nullptr, std::memory_order_release);
  OwnPauses::SetLive(nullptr);
  Stores::SetLive(nullptr);
  Gate::ResetAfterFork();
  make_mu.ResetAfterFork();
  MutexLock lock(make_mu);
  if (runtime == nullptr) return;
  runtime->agent.AbandonAfterFork();
  runtime->operations.AbandonAfterFork();
  runtime->own_pauses.AbandonAfterFork();
  PauseHooks::Get().ResetAfterFork();
  runtime->wants.AbandonAfterFork();
  Stores::AbandonAfterFork();
  ChildSockets::CloseAll();
  runtime->ledger->AbandonAfterFork();
  // Leaked: its locks may be held by threads that the child does not have.
  runtime = nullptr;
}

}  // namespace parkade::shim
