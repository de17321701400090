// Asks driver, system and environment.
#include "shim/agent/surroundings.h"

#include <unistd.h>

#include <cstring>

namespace parkade::shim {
namespace {

constexpr long kUsualPage = 4096;
// CUDA 12.2, of driver 535: older ones are not supported.
constexpr int kOldestDriver = 12020;

bool Has(const Driver& driver, CUdevice_attribute attribute, CUdevice device) {
  int value = 0;
  return driver.device_get_attribute != nullptr &&
         driver.device_get_attribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

// The newer call names the slice of a GPU that is divided, the older one the GPU.
bool IsSlice(const Driver& driver, CUdevice device) {
  CUuuid gpu{}, own{};
  return driver.device_get_uuid != nullptr && driver.device_get_gpu_uuid != nullptr &&
         driver.device_get_gpu_uuid(&gpu, device) == CUDA_SUCCESS &&
         driver.device_get_uuid(&own, device) == CUDA_SUCCESS &&
         memcmp(gpu.bytes, own.bytes, sizeof gpu.bytes) != 0;
}

void ReadDriver(const Driver& driver, Surroundings* s) {
  int version = 0;
  if (driver.driver_get_version == nullptr || driver.driver_get_version(&version) != CUDA_SUCCESS) {
    return;
  }
  const std::string text =
      std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  s->lines += "driver=CUDA " + text + " (cuDriverGetVersion)\n";
  if (version < kOldestDriver) {
    s->warnings += "this driver knows CUDA " + text + ": Parkade is for those since 12.2 (535)\n";
  }
}

}  // namespace

Host ReadHost() { return {sysconf(_SC_PAGESIZE), access("/dev/dxg", F_OK) == 0}; }

Surroundings LookAround(const Driver& driver, const Host& host) {
  Surroundings s;
  ReadDriver(driver, &s);
  int devices = 0;
  if (driver.device_get_count == nullptr || driver.device_get_count(&devices) != CUDA_SUCCESS) {
    devices = 0;
  }
  for (CUdevice device = 0; device < devices; ++device) {
    const std::string gpu = "GPU " + std::to_string(device);
    if (Has(driver, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device)) {
      s.lines += "mps=" + gpu + " (CU_DEVICE_ATTRIBUTE_MPS_ENABLED)\n";
      s.warnings += gpu + " is shared by MPS: pauses under MPS have not been tried\n";
    }
    if (IsSlice(driver, device)) {
      s.lines += "mig=" + gpu + " (cuDeviceGetUuid_v2)\n";
      s.warnings += gpu +
                    " is a MIG slice: pauses on MIG have not been tried, and its free memory" +
                    " is not known to the daemon\n";
    }
  }
  if (host.wsl) {
    s.lines += "wsl=yes (/dev/dxg)\n";
    s.warnings += "the GPU is reached through Windows: Parkade has not been tried on WSL\n";
  }
  if (host.page_bytes != kUsualPage) {
    s.lines += "page_size=" + std::to_string(host.page_bytes) + " (sysconf)\n";
    s.warnings += "memory pages have " + std::to_string(host.page_bytes) +
                  " bytes: Parkade has not been tried with such pages and a GPU\n";
  }
  return s;
}

std::string ReadTools(const char* (*get)(const char* name)) {
  // Profilers come by the first and the last, compute-sanitizer by the second.
  for (const char* name :
       {"CUDA_INJECTION64_PATH", "NV_SANITIZER_INJECTION_PORT_BASE", "NVTX_INJECTION64_PATH"}) {
    const char* value = get(name);
    if (value != nullptr && *value != '\0') {
      return std::string("tool=") + value + " (" + name + ")\n";
    }
  }
  return {};
}

}  // namespace parkade::shim
