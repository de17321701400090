// NVML beside the driver: the same devices, and the same account.
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/sim/device_names.h"
#include "tests/sim/nvml_api.h"
#include "tests/unit/sim/gpu.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

nvmlDevice_t Device(unsigned index) {
  nvmlDevice_t device = nullptr;
  REQUIRE(nvmlDeviceGetHandleByIndex_v2(index, &device) == NVML_SUCCESS);
  return device;
}

}  // namespace

TEST_CASE("nothing works before init and after the last shutdown") {
  unsigned count = 0;
  REQUIRE(nvmlDeviceGetCount_v2(&count) == NVML_ERROR_UNINITIALIZED);
  REQUIRE(nvmlInit_v2() == NVML_SUCCESS);
  REQUIRE(nvmlDeviceGetCount_v2(&count) == NVML_SUCCESS);
  REQUIRE(count == 2);
  REQUIRE(nvmlShutdown() == NVML_SUCCESS);
  REQUIRE(nvmlDeviceGetCount_v2(&count) == NVML_ERROR_UNINITIALIZED);
  REQUIRE(nvmlShutdown() == NVML_ERROR_UNINITIALIZED);
}

TEST_CASE("devices have the driver's UUIDs") {
  REQUIRE(nvmlInit_v2() == NVML_SUCCESS);
  const Gpu gpu;
  for (int i : {0, 1}) {
    char text[96];
    REQUIRE(nvmlDeviceGetUUID(Device(unsigned(i)), text, sizeof text) == NVML_SUCCESS);
    CUuuid uuid;
    REQUIRE(cuDeviceGetUuid(&uuid, i) == CUDA_SUCCESS);
    const auto bytes = DeviceUuid(i);
    REQUIRE(memcmp(uuid.bytes, bytes.data(), bytes.size()) == 0);
    REQUIRE(text == DeviceUuidText(i));
    nvmlDevice_t again = nullptr;
    REQUIRE(nvmlDeviceGetHandleByUUID(text, &again) == NVML_SUCCESS);
    REQUIRE(again == Device(unsigned(i)));
    REQUIRE(nvmlDeviceGetUUID(Device(unsigned(i)), text, 8) == NVML_ERROR_INSUFFICIENT_SIZE);
  }
  nvmlDevice_t device = nullptr;
  REQUIRE(nvmlDeviceGetHandleByIndex_v2(2, &device) == NVML_ERROR_INVALID_ARGUMENT);
  REQUIRE(nvmlShutdown() == NVML_SUCCESS);
}

TEST_CASE("memory and processes come from the account") {
  REQUIRE(nvmlInit_v2() == NVML_SUCCESS);
  const Gpu gpu;
  const Buffer buffer(32_MiB);
  nvmlMemory_t memory = {};
  REQUIRE(nvmlDeviceGetMemoryInfo(Device(0), &memory) == NVML_SUCCESS);
  REQUIRE(memory.total == 256_MiB);
  REQUIRE(memory.free == gpu.Free());
  REQUIRE(memory.used == 48_MiB);
  nvmlMemory_v2_t more = {};
  REQUIRE(nvmlDeviceGetMemoryInfo_v2(Device(0), &more) == NVML_SUCCESS);
  REQUIRE(more.used == memory.used);

  unsigned count = 0;
  REQUIRE(nvmlDeviceGetComputeRunningProcesses_v3(Device(0), &count, nullptr) ==
          NVML_ERROR_INSUFFICIENT_SIZE);
  REQUIRE(count == 1);
  nvmlProcessInfo_t process = {};
  REQUIRE(nvmlDeviceGetComputeRunningProcesses_v3(Device(0), &count, &process) == NVML_SUCCESS);
  REQUIRE(process.pid == unsigned(getpid()));
  REQUIRE(process.usedGpuMemory == 48_MiB);
  count = 1;
  REQUIRE(nvmlDeviceGetComputeRunningProcesses_v3(Device(1), &count, &process) == NVML_SUCCESS);
  REQUIRE(count == 0);
  REQUIRE(nvmlShutdown() == NVML_SUCCESS);
}
