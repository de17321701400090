// libnvidia-ml.so.1 in software: reads the account of the simulated node.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "common/mutex.h"
#include "tests/sim/account.h"
#include "tests/sim/device_names.h"
#include "tests/sim/nvml_api.h"
#include "tests/sim/settings.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

struct Node {
  Settings settings;
  Account account;
};

Mutex mu;
int users GUARDED_BY(mu) = 0;
Node* node GUARDED_BY(mu) = nullptr;  // kept after Shutdown: an Account is never destroyed

// The node while somebody has NVML initialized.
Node* Live() {
  MutexLock lock(mu);
  return users > 0 ? node : nullptr;
}

nvmlReturn_t Init() {
  MutexLock lock(mu);
  if (node == nullptr) {
    auto* fresh = new Node;
    fresh->settings = ReadSettings();
    if (!fresh->account.Open(fresh->settings.dir)) return NVML_ERROR_DRIVER_NOT_LOADED;
    node = fresh;
  }
  ++users;
  return NVML_SUCCESS;
}

nvmlDevice_t DeviceOf(int gpu) { return reinterpret_cast<nvmlDevice_t>(intptr_t(gpu + 1)); }

// Runs `body` with the node and the device's index.
template <typename Body>
nvmlReturn_t With(nvmlDevice_t device, Body body) {
  Node* live = Live();
  if (live == nullptr) return NVML_ERROR_UNINITIALIZED;
  const int gpu = int(reinterpret_cast<intptr_t>(device)) - 1;
  if (gpu < 0 || gpu >= live->settings.gpus) return NVML_ERROR_INVALID_ARGUMENT;
  return body(*live, gpu);
}

nvmlReturn_t PutText(const std::string& text, char* out, unsigned length) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (text.size() >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(out, text.c_str());
  return NVML_SUCCESS;
}

// *count: room on the way in, processes on the way out, also when the room was too small.
template <typename Info>
nvmlReturn_t Processes(nvmlDevice_t device, unsigned* count, Info* infos) {
  return With(device, [&](Node& live, int gpu) {
    if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const auto holders = live.account.Holders(gpu);
    const unsigned room = infos == nullptr ? 0 : *count;
    *count = unsigned(holders.size());
    if (holders.size() > room) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (size_t i = 0; i < holders.size(); ++i) {
      memset(&infos[i], 0xff, sizeof infos[i]);  // "not available" for the instance ids
      infos[i].pid = unsigned(holders[i].pid);
      infos[i].usedGpuMemory = holders[i].bytes;
    }
    return NVML_SUCCESS;
  });
}

}  // namespace

nvmlReturn_t nvmlInit_v2() { return Init(); }
nvmlReturn_t nvmlInitWithFlags(unsigned) { return Init(); }

nvmlReturn_t nvmlShutdown() {
  MutexLock lock(mu);
  if (users == 0) return NVML_ERROR_UNINITIALIZED;
  --users;
  return NVML_SUCCESS;
}

const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "The operation was successful";
    case NVML_ERROR_UNINITIALIZED:
      return "NVML was not first initialized with nvmlInit()";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "A supplied argument is invalid";
    case NVML_ERROR_NOT_SUPPORTED:
      return "The requested operation is not available on target device";
    case NVML_ERROR_NOT_FOUND:
      return "A query to find an object was unsuccessful";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "An input argument is not large enough";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "NVIDIA driver is not loaded";
    default:
      return "An internal driver error occurred";
  }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return Live() == nullptr ? NVML_ERROR_UNINITIALIZED : PutText("580.0", version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t* state) {
  Node* live = Live();
  if (live == nullptr) return NVML_ERROR_UNINITIALIZED;
  *state = {0, live->settings.cc ? 1u : 0u, 0};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current, unsigned* pending) {
  return With(device, [&](Node& live, int) {
    *current = *pending = live.settings.mig ? 1 : 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  Node* live = Live();
  if (live == nullptr) return NVML_ERROR_UNINITIALIZED;
  *count = unsigned(live->settings.gpus);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  return With(DeviceOf(int(index)), [&](Node&, int gpu) {
    *device = DeviceOf(gpu);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  Node* live = Live();
  if (live == nullptr) return NVML_ERROR_UNINITIALIZED;
  for (int gpu = 0; gpu < live->settings.gpus; ++gpu) {
    if (DeviceUuidText(gpu) != uuid) continue;
    *device = DeviceOf(gpu);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  return With(device, [&](Node&, int gpu) {
    *index = unsigned(gpu);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned length) {
  return With(device, [&](Node&, int) { return PutText(kDeviceName, name, length); });
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned length) {
  return With(device, [&](Node&, int gpu) { return PutText(DeviceUuidText(gpu), uuid, length); });
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  return With(device, [&](Node& live, int gpu) {
    memory->total = live.settings.gpu_bytes;
    memory->used = live.account.Used(gpu);
    memory->free = memory->used < memory->total ? memory->total - memory->used : 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  nvmlMemory_t plain = {};
  const nvmlReturn_t result = nvmlDeviceGetMemoryInfo(device, &plain);
  if (result != NVML_SUCCESS) return result;
  memory->total = plain.total;
  memory->used = plain.used;
  memory->free = plain.free;
  memory->reserved = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* count,
                                                  nvmlProcessInfo_v1_t* infos) {
  return Processes(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* count,
                                                     nvmlProcessInfo_t* infos) {
  return Processes(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                     nvmlProcessInfo_t* infos) {
  return Processes(device, count, infos);
}
