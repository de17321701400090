// Stream-ordered pools under the hooks, on two simulated GPUs: counted where they are, and never
// asked about while they end.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "common/bytes.h"
#include "proto/ledger.h"
#include "tests/sim/call_counts.h"
#include "tests/unit/shim/hooks/context.h"
#include "tests/unit/shim/hooks/levers.h"
#include "tests/unit/shim/hooks/within.h"

using namespace parkade;
using namespace std::chrono_literals;

namespace {

constexpr Bytes kBytes = 4_MiB;  // so much at once has pools measured at once

uint64_t Counted(int device) {
  return parkade_test_foreign_bytes_of(device, uint32_t(wire::ForeignKind::kPool));
}

// How often the driver was called so far.
uint64_t Calls(const std::string& name) {
  std::ifstream file(getenv("SIM_COUNT_FILE"), std::ios::binary);
  sim::CallCount count;
  while (file.read(reinterpret_cast<char*>(&count), sizeof count)) {
    if (name == count.name) return count.calls;
  }
  return 0;
}

// The next call of that name takes half a second. Lines must differ, for each acts once.
void Delay(const std::string& name) {
  static int delays = 0;
  std::ofstream(getenv("SIM_FAULTS")) << name << " 1 wait " << 500 + ++delays << "ms\n";
}

// Whether the driver is not called within half a second of `since`.
bool IsNotCalled(const std::string& name, std::chrono::steady_clock::time_point since) {
  const uint64_t before = Calls(name);
  while (true) {
    const uint64_t now = Calls(name);
    if (std::chrono::steady_clock::now() - since > 500ms) return true;
    if (now != before) return false;
  }
}

// The primary contexts of both devices, that of the first current.
class Devices {
 public:
  Devices() {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    for (int i = 1; i >= 0; --i) Retain(i);
  }
  ~Devices() {
    cuCtxSetCurrent(CUcontext(nullptr));
    for (int i = 0; i < 2; ++i) cuDevicePrimaryCtxRelease_v2(i);
  }
  void Retain(int device) {
    REQUIRE(cuDevicePrimaryCtxRetain(&contexts_[device], device) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(contexts_[device]) == CUDA_SUCCESS);
  }
  CUcontext operator[](int device) const { return contexts_[device]; }

 private:
  CUcontext contexts_[2] = {};
};

CUmemoryPool MakePool(int device) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  CUmemoryPool pool = nullptr;
  REQUIRE(cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
  return pool;
}

CUdeviceptr Take(CUmemoryPool pool) {
  CUdeviceptr p = 0;
  CHECK(cuMemAllocFromPoolAsync(&p, kBytes, pool, nullptr) == CUDA_SUCCESS);
  return p;
}

void GiveBack(CUdeviceptr p, CUmemoryPool pool) {
  CHECK(cuMemFreeAsync(p, nullptr) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);
}

}  // namespace

// The first test: no context has been made yet.
TEST_CASE("a pool that was set before the first context is counted") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  const CUmemoryPool early = MakePool(0);
  REQUIRE(cuDeviceSetMemPool(0, early) == CUDA_SUCCESS);
  Devices devices;
  CUdeviceptr a = 0, b = 0, c = 0;
  REQUIRE(cuMemAllocAsync(&a, kBytes, nullptr) == CUDA_SUCCESS);
  CHECK(Counted(0) == kBytes);

  // Also when another one has taken its place, by either call.
  const CUmemoryPool late = MakePool(0);
  REQUIRE(cuDeviceSetMemPool(0, late) == CUDA_SUCCESS);
  REQUIRE(cuMemAllocAsync(&b, kBytes, nullptr) == CUDA_SUCCESS);
  CHECK(Counted(0) == 2 * kBytes);
  CUmemoryPool own = nullptr;
  REQUIRE(cuDeviceGetDefaultMemPool(&own, 0) == CUDA_SUCCESS);
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  REQUIRE(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, own) == CUDA_SUCCESS);
  REQUIRE(cuMemAllocAsync(&c, kBytes, nullptr) == CUDA_SUCCESS);
  CHECK(Counted(0) == 3 * kBytes);

  GiveBack(c, own);
  GiveBack(b, late);
  CHECK(Counted(0) == kBytes);
  GiveBack(a, early);
  CHECK(Counted(0) == 0);
  CHECK(cuMemPoolDestroy(late) == CUDA_SUCCESS);
  CHECK(cuMemPoolDestroy(early) == CUDA_SUCCESS);
}

TEST_CASE("a pool is counted on its own device, whichever is current") {
  Devices devices;
  const CUmemoryPool made = MakePool(1);
  CUmemoryPool own = nullptr;
  REQUIRE(cuDeviceGetDefaultMemPool(&own, 1) == CUDA_SUCCESS);
  const CUdeviceptr a = Take(made);
  CHECK(Counted(0) == 0);
  CHECK(Counted(1) == kBytes);
  const CUdeviceptr b = Take(own);
  CHECK(Counted(0) == 0);
  CHECK(Counted(1) == 2 * kBytes);
  CUdeviceptr c = 0;
  REQUIRE(cuMemAllocAsync(&c, kBytes, nullptr) == CUDA_SUCCESS);
  CHECK(Counted(0) == kBytes);
  CUmemoryPool first = nullptr;
  REQUIRE(cuDeviceGetDefaultMemPool(&first, 0) == CUDA_SUCCESS);
  GiveBack(c, first);
  CHECK(Counted(0) == 0);
  GiveBack(b, own);
  CHECK(Counted(1) == kBytes);
  GiveBack(a, made);
  CHECK(Counted(1) == 0);
  CHECK(cuMemPoolDestroy(made) == CUDA_SUCCESS);
}

TEST_CASE("a pool is not destroyed while the driver is asked about it") {
  Devices devices;
  const CUmemoryPool pool = MakePool(0);
  const uint64_t asked = Calls("cuMemPoolGetAttribute");
  Delay("cuMemPoolGetAttribute");
  const auto since = std::chrono::steady_clock::now();
  CUdeviceptr p = 0;
  std::thread asking([&] {
    cuCtxSetCurrent(devices[0]);
    p = Take(pool);
  });
  REQUIRE(Within10s([&] { return Calls("cuMemPoolGetAttribute") == asked + 1; }));
  std::thread destroying([&] { CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS); });
  CHECK(IsNotCalled("cuMemPoolDestroy", since));
  asking.join();
  destroying.join();
  CHECK(Counted(0) == 0);
  CHECK(cuMemFreeAsync(p, nullptr) == CUDA_SUCCESS);
}

TEST_CASE("nobody asks about a pool that is being destroyed") {
  Devices devices;
  const CUmemoryPool goes = MakePool(0), stays = MakePool(1);
  const uint64_t destroyed = Calls("cuMemPoolDestroy");
  Delay("cuMemPoolDestroy");
  std::thread destroying([&] { CHECK(cuMemPoolDestroy(goes) == CUDA_SUCCESS); });
  REQUIRE(Within10s([&] { return Calls("cuMemPoolDestroy") == destroyed + 1; }));
  const uint64_t asked = Calls("cuMemPoolGetAttribute");
  const uint64_t own = Calls("cuDeviceGetDefaultMemPool");
  const CUdeviceptr p = Take(stays);
  // The devices' own pools are asked about too, where an earlier test has used them.
  CHECK(Calls("cuMemPoolGetAttribute") - asked == 1 + Calls("cuDeviceGetDefaultMemPool") - own);
  CHECK(Counted(1) == kBytes);
  destroying.join();
  GiveBack(p, stays);
  CHECK(cuMemPoolDestroy(stays) == CUDA_SUCCESS);
}

TEST_CASE("a device is not reset while the driver is asked about its pools") {
  Devices devices;
  CUdeviceptr p = 0;
  const uint64_t asked = Calls("cuMemPoolGetAttribute");
  Delay("cuMemPoolGetAttribute");
  const auto since = std::chrono::steady_clock::now();
  std::thread asking([&] {
    cuCtxSetCurrent(devices[0]);
    CHECK(cuMemAllocAsync(&p, kBytes, nullptr) == CUDA_SUCCESS);
  });
  REQUIRE(Within10s([&] { return Calls("cuMemPoolGetAttribute") == asked + 1; }));
  std::thread resetting([&] { CHECK(cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS); });
  CHECK(IsNotCalled("cuDevicePrimaryCtxReset", since));
  asking.join();
  resetting.join();
  CHECK(Counted(0) == 0);
  devices.Retain(0);
}

TEST_CASE("nobody asks about the pools of a device that is being reset") {
  Devices devices;
  const CUmemoryPool other = MakePool(1);
  CUdeviceptr p = 0, q = 0;
  REQUIRE(cuMemAllocAsync(&p, kBytes, nullptr) == CUDA_SUCCESS);
  REQUIRE(Counted(0) >= kBytes);
  const uint64_t resets = Calls("cuDevicePrimaryCtxReset");
  Delay("cuDevicePrimaryCtxReset");
  std::thread resetting([&] { CHECK(cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS); });
  REQUIRE(Within10s([&] { return Calls("cuDevicePrimaryCtxReset") == resets + 1; }));
  const uint64_t asked = Calls("cuMemPoolGetAttribute"), own = Calls("cuDeviceGetDefaultMemPool");
  cuCtxSetCurrent(devices[1]);
  q = Take(other);
  CHECK(Calls("cuMemPoolGetAttribute") - asked == 1);
  CHECK(Calls("cuDeviceGetDefaultMemPool") == own);
  CHECK(Counted(1) == kBytes);
  GiveBack(q, other);
  resetting.join();
  CHECK(Counted(0) == 0);
  CHECK(cuMemPoolDestroy(other) == CUDA_SUCCESS);
  devices.Retain(0);
}
