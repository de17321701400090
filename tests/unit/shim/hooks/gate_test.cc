// Every entry point under a closed gate, over a fake driver in which each does nothing.
#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "shim/hooks/entries.h"
#include "tests/unit/shim/hooks/file_of.h"
#include "tests/unit/shim/hooks/levers.h"
#include "tests/unit/shim/hooks/within.h"

using parkade::shim::Policy;

namespace {

using parkade::shim::Entry;

// As many arguments as any entry point has in registers and on the stack. Each is the address of
// zeroes: on aarch64 a large struct by value is one, and the wrapper copies what it points to.
using AnyCall = int (*)(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*,
                        void*, void*, void*, void*, void*);
alignas(16) char zeroes[256];

void* Driver() {
  static void* handle = dlopen(PARKADE_IDLE_DRIVER, RTLD_LAZY);
  REQUIRE(handle != nullptr);
  return handle;
}

template <typename F>
F DriversOwn(const char* name) {
  return reinterpret_cast<F>(dlsym(Driver(), name));
}

void CallWithZeroes(const char* name) {
  void* const z = zeroes;
  if (auto call = DriversOwn<AnyCall>(name)) call(z, z, z, z, z, z, z, z, z, z, z, z, z, z, z, z);
}

// How often a call has arrived at the driver's function.
int Arrived(Entry entry) {
  static const auto calls = DriversOwn<int (*)(int)>("idle_calls");
  return calls(int(entry));
}

std::vector<Entry> EntriesWith(std::initializer_list<Policy> policies) {
  std::vector<Entry> entries;
  for (int i = 0; i < parkade::shim::kEntryCount; ++i) {
    for (Policy p : policies) {
      if (parkade::shim::PolicyOf(Entry(i)) == p) entries.push_back(Entry(i));
    }
  }
  return entries;
}

// By the first form of the resolver and by the second.
std::vector<void*> Resolved(const parkade::shim::EntryVersion& form) {
  const char* base = parkade::shim::NameOf(form.base);
  const auto flags = form.per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                     : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  std::vector<void*> found(2);
  CHECK(cuGetProcAddress(base, &found[0], form.since, cuuint64_t(flags)) == CUDA_SUCCESS);
  CHECK(cuGetProcAddress_v2(base, &found[1], form.since, cuuint64_t(flags), nullptr) ==
        CUDA_SUCCESS);
  return found;
}

}  // namespace

TEST_CASE("every form of every name is the same wrapper by all routes") {
  void* const driver = Driver();
  int forms = 0;
  for (int i = 0; i < parkade::shim::kEntryVersionCount; ++i) {
    const auto& form = parkade::shim::kEntryVersions[i];
    const char* name = parkade::shim::NameOf(form.entry);
    INFO(name);
    void* const wrapper = dlsym(RTLD_DEFAULT, name);  // what a linked call is bound to
    REQUIRE(wrapper != nullptr);
    CHECK(FileOf(wrapper) == "libhooks_under_test.so");
    CHECK(dlsym(driver, name) == wrapper);
    for (void* found : Resolved(form)) CHECK(found == wrapper);
    ++forms;
  }
  std::printf("%d forms, each by 4 routes\n", forms);
  CHECK(forms == parkade::shim::kEntryCount);
}

TEST_CASE("no name is left out") {
  const size_t gated =
      EntriesWith({Policy::kGate, Policy::kCopy, Policy::kFree, Policy::kTrack}).size();
  const size_t passing = EntriesWith({Policy::kForward, Policy::kWait, Policy::kQuery}).size();
  const size_t custom = EntriesWith({Policy::kCustom}).size();
  std::printf(
      "%zu names wait at a closed gate, %zu pass it, %zu have handlers (custom_gate_test)\n", gated,
      passing, custom);
  CHECK(gated + passing + custom == size_t(parkade::shim::kEntryCount));
  CHECK(gated > 230);
  CHECK(passing > 200);
}

TEST_CASE("every name that submits work waits at a closed gate and goes on when it opens") {
  const auto gated = EntriesWith({Policy::kGate, Policy::kCopy, Policy::kFree, Policy::kTrack});
  REQUIRE(parkade_test_close_gate(1000) == 0);
  for (size_t first = 0; first < gated.size(); first += 40) {
    const size_t last = std::min(gated.size(), first + 40);
    std::vector<int> before;
    for (size_t i = first; i < last; ++i) before.push_back(Arrived(gated[i]));
    std::vector<std::thread> threads;
    for (size_t i = first; i < last; ++i) {
      threads.emplace_back([&, i] { CallWithZeroes(parkade::shim::NameOf(gated[i])); });
    }
    const bool all_wait = Within10s([&] { return parkade_test_waiting_threads() == last - first; });
    CHECK(all_wait);
    for (size_t i = first; i < last; ++i) {
      INFO(parkade::shim::NameOf(gated[i]));
      CHECK(Arrived(gated[i]) == before[i - first]);
    }
    parkade_test_open_gate();
    for (std::thread& t : threads) t.join();
    for (size_t i = first; i < last; ++i) {
      INFO(parkade::shim::NameOf(gated[i]));
      CHECK(Arrived(gated[i]) == before[i - first] + 1);
    }
    REQUIRE(parkade_test_close_gate(1000) == 0);
  }
  parkade_test_open_gate();
}

TEST_CASE("waits, queries and what submits nothing arrive at the driver past a closed gate") {
  const auto passing = EntriesWith({Policy::kForward, Policy::kWait, Policy::kQuery});
  REQUIRE(parkade_test_close_gate(1000) == 0);
  std::atomic<size_t> through{0};
  std::vector<int> before;
  for (Entry e : passing) before.push_back(Arrived(e));
  std::thread caller([&] {
    for (Entry e : passing) {
      CallWithZeroes(parkade::shim::NameOf(e));
      through.fetch_add(1);
    }
  });
  const bool passed = Within10s([&] { return through == passing.size(); });
  INFO(parkade::shim::NameOf(passing[std::min(through.load(), passing.size() - 1)]));
  CHECK(passed);
  CHECK(parkade_test_waiting_threads() == 0);
  parkade_test_open_gate();
  caller.join();
  for (size_t i = 0; i < passing.size(); ++i) {
    INFO(parkade::shim::NameOf(passing[i]));
    CHECK(Arrived(passing[i]) == before[i] + 1);
  }
}

TEST_CASE("once a pause is in force what gives back passes, and what submits still waits") {
  REQUIRE(parkade_test_close_gate(1000) == 0);
  parkade_test_settle_gate();
  std::atomic<bool> freed{false};
  std::atomic<bool> worked{false};
  std::thread giver([&] {
    for (Entry e : EntriesWith({Policy::kFree})) CallWithZeroes(parkade::shim::NameOf(e));
    for (const char* name :
         {"cuStreamDestroy_v2", "cuCtxDestroy_v2", "cuDevicePrimaryCtxRelease_v2",
          "cuDevicePrimaryCtxReset_v2", "cuMemFree_v2", "cuMemPoolDestroy", "cuArrayDestroy",
          "cuMipmappedArrayDestroy", "cuMemFreeHost", "cuMemHostUnregister"}) {
      CallWithZeroes(name);
    }
    freed = true;
  });
  std::thread worker([&] {
    CallWithZeroes("cuLaunchKernel");
    worked = true;
  });
  const bool passed = Within10s([&] { return freed.load(); });
  const bool waits = Within10s([&] { return parkade_test_waiting_threads() == 1; });
  CHECK(passed);
  CHECK(waits);
  CHECK_FALSE(worked.load());
  parkade_test_open_gate();
  giver.join();
  worker.join();
}

TEST_CASE("calls that make what a pause cannot move are counted") {
  const uint64_t before = parkade_test_tracked_calls("cuImportExternalMemory");
  CallWithZeroes("cuImportExternalMemory");
  CHECK(parkade_test_tracked_calls("cuImportExternalMemory") == before + 1);
}

TEST_CASE("functions that only a newer driver has are counted, graphics interop is not") {
  const uint64_t before = parkade_test_unhooked_names();
  CHECK(dlsym(Driver(), "cuNotYetInvented") != nullptr);
  CHECK(parkade_test_unhooked_names() == before + 1);
  CHECK(dlsym(Driver(), "cuNotYetInvented") != nullptr);
  CHECK(parkade_test_unhooked_names() == before + 1);  // it is one name
  CHECK(dlsym(Driver(), "cuGraphicsGLRegisterBuffer") != nullptr);
  CHECK(dlsym(Driver(), "cuNoSuchThing") == nullptr);
  CHECK(parkade_test_unhooked_names() == before + 1);
}

#if !defined(PARKADE_SANITIZED)  // the runtimes of sanitizers refuse RTLD_DEEPBIND
TEST_CASE("a library with its own bindings is named") {
  char names[4096] = "";
  CHECK(parkade_test_escapes(names, sizeof names) == 0);
  void* usual = dlopen(PARKADE_DLSYM_CLIENT, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(usual != nullptr);
  CHECK(parkade_test_escapes(names, sizeof names) == 0);
  dlclose(usual);
  void* deep = dlopen(PARKADE_DLSYM_CLIENT, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  REQUIRE(deep != nullptr);
  CHECK(parkade_test_escapes(names, sizeof names) == 1);
  CHECK(std::string(names) == "libdlsym_client.so dlsym\n");
  dlclose(deep);
}
#endif
