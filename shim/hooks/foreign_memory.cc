// Tells communication libraries apart by their file.
#include "shim/hooks/foreign_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "common/mutex.h"
#include "shim/libc/loaded_object.h"

// glibc since 2.3: what pthread_atfork calls, which older glibc keeps in libpthread.
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* dso);
extern "C" void* __dso_handle;

namespace parkade::shim {
namespace {

constexpr std::string_view kLibraries[] = {"libnccl.so",  "libnccl-net", "libnvshmem",
                                           "libucp.so",   "libuct.so",   "libucs.so",
                                           "libuct_cuda", "libmscclpp"};

constexpr std::string_view kStateful[] = {"libcublas",   "libcudnn",    "libcufft",    "libcurand",
                                          "libcusolver", "libcusparse", "libcutensor", "libnvinfer",
                                          "libnvjpeg",   "libnpp"};

bool IsOneOf(const LoadedObject& object, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view prefix) {
    return FileName(object.path()).starts_with(prefix);
  });
}

struct Verdict {
  uintptr_t low;
  uintptr_t size;
  bool keeps_native;
};

// Made on first use and never destroyed: hooks run until the process ends.
struct Lists {
  std::vector<Verdict> verdicts;
  uint64_t unloads = 0;  // dlpi_subs when the verdicts were given
};

Mutex mu;  // innermost; nothing is called while it is held
Lists* lists GUARDED_BY(mu) = nullptr;

bool fork_registered GUARDED_BY(mu) = false;

// In a forked child: whoever held the lock is gone. The lists may be half changed, so they are left
// where they are.
void ForgetAllAfterFork() {
  mu.ResetAfterFork();
  MutexLock lock(mu);
  lists = nullptr;
}

Lists& All() REQUIRES(mu) {
  if (lists == nullptr) lists = new Lists;
  if (!fork_registered) {
    fork_registered = true;
    __register_atfork(nullptr, nullptr, ForgetAllAfterFork, &__dso_handle);
  }
  return *lists;
}

std::optional<bool> KnownVerdict(uintptr_t address, uint64_t unloads) {
  MutexLock lock(mu);
  Lists& all = All();
  if (all.unloads != unloads) {
    all.verdicts.clear();
    all.unloads = unloads;
  }
  for (const Verdict& v : all.verdicts) {
    if (address - v.low < v.size) return v.keeps_native;
  }
  return std::nullopt;
}

bool IsZero(const char* variable) {
  const char* value = getenv(variable);
  return value != nullptr && strcmp(value, "0") == 0;
}

}  // namespace

bool KeepsNativeMemory(const void* caller, const LoadCounts& loads) {
  // After an unload an address may belong to another file.
  if (auto known = KnownVerdict(reinterpret_cast<uintptr_t>(caller), loads.unloads)) return *known;
  const auto object = LoadedObject::ByAddress(caller);
  if (!object) return false;  // code made at run time
  const Verdict verdict{object->low(), object->size(), IsOneOf(*object, kLibraries)};
  MutexLock lock(mu);
  All().verdicts.push_back(verdict);
  return verdict.keeps_native;
}

bool KeepsStateInMemory(const void* caller) {
  const auto object = LoadedObject::ByAddress(caller);
  return object && IsOneOf(*object, kStateful);
}

void AdviseOnNccl(LedgerWriter& ledger) {
  static constinit std::atomic<const LedgerWriter*> said_in{nullptr};
  // It may come later than another of these libraries.
  if (said_in.load(std::memory_order_relaxed) == &ledger) return;
  if (!LoadedObject::ByFileName("libnccl.so")) return;
  said_in.store(&ledger, std::memory_order_relaxed);
  if (IsZero("NCCL_GRAPH_REGISTER") && IsZero("NCCL_LOCAL_REGISTER")) return;
  ledger.AddWarning(
      "NCCL may register memory that collectives use, which then stays in HBM: "
      "NCCL_GRAPH_REGISTER=0 and NCCL_LOCAL_REGISTER=0 keep it from that");
}

}  // namespace parkade::shim
