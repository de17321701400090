// A lifecycle of heap and gate alone, so that hooks are tested without agent and daemon, and levers
// for the tests. Linked in the place of shim/lifecycle.cc, shim/agent and shim/pause.
#include "tests/unit/shim/hooks/levers.h"

#include <cstdio>
#include <cstring>

#include "proto/ledger.h"
#include "shim/cuda/scoped_context.h"
#include "shim/hooks/counts.h"
#include "shim/hooks/escapes.h"
#include "shim/libc/loaded_object.h"
#include "shim/lifecycle.h"
#include "shim/pause/gate.h"

namespace parkade::shim {
namespace {

struct Runtime {
  Runtime(Driver d, std::unique_ptr<LedgerWriter> l) : driver(d), ledger(std::move(l)) {}
  const Driver driver;
  const std::unique_ptr<LedgerWriter> ledger;
  Contexts contexts;
  Streams streams;
  Heap heap{driver, *ledger, contexts};
  Foreign foreign{driver, *ledger};
  Registrations registrations{*ledger};
  Wants wants;
  TurnWaits turns{false};
  ShareServer exports{driver, heap};
  Imports imports{driver, heap};
  Parts parts{driver,  contexts, streams, heap,      foreign, registrations, wants,
              exports, imports,  *ledger, "default", 0,       turns};
};

wire::LedgerHeader Ledger() {
  if (LiveParts() == nullptr) return {};
  auto header = wire::ReadLedgerHeader(LiveParts()->ledger.fd());
  return header.ok() ? *header : wire::LedgerHeader{};
}

}  // namespace

namespace internal {
constinit std::atomic<Parts*> live_parts{nullptr};
}

void ContextMade(SymbolLookup lookup, CUcontext context) {
  if (LiveParts() == nullptr) {
    auto ledger = LedgerWriter::Create();
    if (!ledger.ok()) return;
    Gate::Init();
    auto* made = new Runtime(LoadDriver(lookup), std::move(*ledger));
    internal::live_parts.store(&made->parts, std::memory_order_release);
  }
  ScopedContext current(LiveParts()->driver, context);
  CUdevice device = 0;
  if (current.status() == CUDA_SUCCESS) LiveParts()->driver.ctx_get_device(&device);
  LiveParts()->contexts.Add(context, device);
}

void ContextGoes(CUcontext context) {
  if (LiveParts() == nullptr) return;
  LiveParts()->heap.ForgetContext(context);
  LiveParts()->foreign.ForgetContext(context);
  LiveParts()->contexts.Remove(context);
}

}  // namespace parkade::shim

using namespace parkade;
using namespace parkade::shim;

extern "C" {

int parkade_test_alive() { return LiveParts() != nullptr; }

uint64_t parkade_test_allocations() { return Ledger().allocations - Ledger().frees; }

uint64_t parkade_test_foreign_bytes() { return Ledger().devices[0].foreign_bytes; }

uint64_t parkade_test_foreign_bytes_of(int device, uint32_t kind) {
  return Ledger().foreign[device].bytes[kind];
}

uint64_t parkade_test_pinned_bytes() { return Ledger().pinned_bytes; }

uint64_t parkade_test_held_bytes() {
  return LiveParts() == nullptr ? 0 : LiveParts()->heap.HeldBytes();
}

int parkade_test_ledger_says(const char* words) {
  return std::string_view(Ledger().text).find(words) != std::string_view::npos;
}

int parkade_test_close_gate(int ms) {
  const std::atomic<bool> never{false};
  if (Gate::Close(Deadline::InMs(uint64_t(ms)), never).ok()) return 0;
  Gate::Open();
  return -1;
}

void parkade_test_open_gate() { Gate::Open(); }

void parkade_test_settle_gate() {
  Gate::Settle(wire::GatedWork::kBlock, wire::GatedAllocations::kAsWork);
}

uint32_t parkade_test_waiting_threads() { return Gate::WaitingThreads(); }

uint64_t parkade_test_unhooked_names() { return UnhookedNames(); }

uint64_t parkade_test_tracked_calls(const char* name) {
  const auto entry = FindEntry(name);
  return entry ? TrackedCalls(*entry) : 0;
}

int parkade_test_tag_of(uint64_t base, char* out) {
  const auto ledger = wire::ReadLedger(LiveParts()->ledger.fd());
  if (!ledger.ok()) return -1;
  for (const wire::LedgerRecord& record : ledger->records) {
    if (record.base != base) continue;
    memcpy(out, record.tag, sizeof record.tag);
    return 0;
  }
  return -1;
}

int parkade_test_escapes(char* out, int size) {
  struct Found {
    char* out;
    int left;
    int count;
  } found{out, size, 0};
  FindEscapes(
      [](void* arg, const char* path, const char* symbol) {
        Found& f = *static_cast<Found*>(arg);
        const std::string_view file = FileName(path);
        const int n = snprintf(f.out, size_t(f.left), "%.*s %s\n", int(file.size()), file.data(),
                               symbol == nullptr ? "is a driver" : symbol);
        if (n > 0 && n < f.left) f.out += n, f.left -= n;
        ++f.count;
      },
      &found);
  return found.count;
}
}
