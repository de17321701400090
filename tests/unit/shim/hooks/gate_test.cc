// Every entry point under a closed gate, over a fake driver in which each does nothing.
#include <dlfcn.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "shim/hooks/entries.h"
#include "tests/unit/shim/hooks/levers.h"

using parkade::shim::Policy;

namespace {

// Zeroes for as many arguments as any entry point has in registers and on the stack.
using AnyCall = int (*)(long, long, long, long, long, long, long, long, long, long, long, long,
                        long, long, long, long);

void* Driver() {
  static void* handle = dlopen(PARKADE_IDLE_DRIVER, RTLD_LAZY);
  REQUIRE(handle != nullptr);
  return handle;
}

void CallWithZeroes(const char* name) {
  const auto call = reinterpret_cast<AnyCall>(dlsym(Driver(), name));
  if (call != nullptr) call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

template <typename Condition>
bool Within10s(Condition condition) {
  const auto by = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > by) return false;
    std::this_thread::yield();
  }
  return true;
}

std::vector<std::string> NamesWith(std::initializer_list<Policy> policies) {
  std::vector<std::string> names;
  for (int i = 0; i < parkade::shim::kEntryCount; ++i) {
    const auto entry = parkade::shim::Entry(i);
    for (Policy p : policies) {
      if (parkade::shim::PolicyOf(entry) == p) names.push_back(parkade::shim::NameOf(entry));
    }
  }
  return names;
}

}  // namespace

TEST_CASE("every name that submits work waits at a closed gate and goes on when it opens") {
  const auto gated = NamesWith({Policy::kGate, Policy::kFree, Policy::kTrack});
  REQUIRE(gated.size() > 250);
  REQUIRE(parkade_test_close_gate(1000) == 0);
  for (size_t first = 0; first < gated.size(); first += 40) {
    const size_t last = std::min(gated.size(), first + 40);
    std::atomic<size_t> through{0};
    std::vector<std::thread> threads;
    for (size_t i = first; i < last; ++i) {
      threads.emplace_back([&, i] {
        CallWithZeroes(gated[i].c_str());
        through.fetch_add(1);
      });
    }
    const bool all_wait = Within10s([&] { return parkade_test_waiting_threads() == last - first; });
    CHECK(all_wait);
    CHECK(through == 0);
    parkade_test_open_gate();
    for (std::thread& t : threads) t.join();
    CHECK(through == last - first);
    REQUIRE(parkade_test_close_gate(1000) == 0);
  }
  parkade_test_open_gate();
}

TEST_CASE("waits, queries and what submits nothing pass a closed gate") {
  REQUIRE(parkade_test_close_gate(1000) == 0);
  std::atomic<bool> done{false};
  std::thread caller([&] {
    for (const std::string& name : NamesWith({Policy::kForward, Policy::kWait, Policy::kQuery})) {
      CallWithZeroes(name.c_str());
    }
    done = true;
  });
  const bool passed = Within10s([&] { return done.load(); });
  CHECK(passed);
  CHECK(parkade_test_waiting_threads() == 0);
  parkade_test_open_gate();
  caller.join();
}

TEST_CASE("once a pause is in force what gives back passes, and what submits still waits") {
  REQUIRE(parkade_test_close_gate(1000) == 0);
  parkade_test_settle_gate();
  std::atomic<bool> freed{false};
  std::atomic<bool> worked{false};
  std::thread giver([&] {
    for (const std::string& name : NamesWith({Policy::kFree})) CallWithZeroes(name.c_str());
    for (const char* name :
         {"cuStreamDestroy_v2", "cuCtxDestroy_v2", "cuDevicePrimaryCtxRelease_v2",
          "cuDevicePrimaryCtxReset_v2", "cuMemFree_v2"}) {
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
  const uint64_t before = parkade_test_tracked_calls("cuMemAllocManaged");
  CallWithZeroes("cuMemAllocManaged");
  CHECK(parkade_test_tracked_calls("cuMemAllocManaged") == before + 1);
}

TEST_CASE("functions that only a newer driver has are counted, graphics interop is not") {
  const uint64_t before = parkade_test_unhooked_names();
  CHECK(dlsym(Driver(), "cuNotYetInvented") != nullptr);
  CHECK(parkade_test_unhooked_names() == before + 1);
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
