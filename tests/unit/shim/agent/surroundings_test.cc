// What is said of driver, MPS, MIG, WSL and pages, and of profilers, by drivers that answer or do
// not.
#include "shim/agent/surroundings.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace parkade::shim;

namespace {

constexpr Host kUsual{4096, false};

int version = 13000;
bool mps = false;
bool mig = false;

Driver TwoDevices() {
  Driver driver;
  driver.driver_get_version = [](int* out) {
    *out = version;
    return CUDA_SUCCESS;
  };
  driver.device_get_count = [](int* out) {
    *out = 2;
    return CUDA_SUCCESS;
  };
  driver.device_get_attribute = [](int* out, CUdevice_attribute a, CUdevice device) {
    *out = a == CU_DEVICE_ATTRIBUTE_MPS_ENABLED && device == 1 && mps ? 1 : 0;
    return CUDA_SUCCESS;
  };
  driver.device_get_gpu_uuid = [](CUuuid* out, CUdevice) {
    memset(out, 1, sizeof *out);
    return CUDA_SUCCESS;
  };
  driver.device_get_uuid = [](CUuuid* out, CUdevice device) {
    memset(out, mig && device == 0 ? 2 : 1, sizeof *out);
    return CUDA_SUCCESS;
  };
  return driver;
}

bool Says(const std::string& text, const char* words) { return text.find(words) != text.npos; }

}  // namespace

TEST_CASE("an ordinary machine has a driver's version and no warning") {
  version = 13000;
  const Surroundings s = LookAround(TwoDevices(), kUsual);
  CHECK(s.lines == "driver=CUDA 13.0 (cuDriverGetVersion)\n");
  CHECK(s.warnings.empty());
}

TEST_CASE("a driver that answers nothing is no reason to say anything") {
  const Surroundings s = LookAround(Driver{}, kUsual);
  CHECK(s.lines.empty());
  CHECK(s.warnings.empty());
}

TEST_CASE("a driver older than those supported is named") {
  version = 11080;
  CHECK(Says(LookAround(TwoDevices(), kUsual).warnings, "this driver knows CUDA 11.8"));
  version = 12020;
  CHECK(LookAround(TwoDevices(), kUsual).warnings.empty());
}

TEST_CASE("MPS and MIG are told by device") {
  version = 13000;
  mps = true;
  Surroundings s = LookAround(TwoDevices(), kUsual);
  mps = false;
  CHECK(Says(s.lines, "mps=GPU 1 ("));
  CHECK_FALSE(Says(s.lines, "GPU 0"));
  CHECK(Says(s.warnings, "GPU 1 is shared by MPS"));
  mig = true;
  s = LookAround(TwoDevices(), kUsual);
  mig = false;
  CHECK(Says(s.lines, "mig=GPU 0 ("));
  CHECK_FALSE(Says(s.lines, "GPU 1"));
  CHECK(Says(s.warnings, "GPU 0 is a MIG slice"));
}

TEST_CASE("WSL and large pages are named") {
  const Surroundings s = LookAround(TwoDevices(), {65536, true});
  CHECK(Says(s.lines, "wsl=yes"));
  CHECK(Says(s.lines, "page_size=65536"));
  CHECK(Says(s.warnings, "WSL"));
  CHECK(Says(s.warnings, "65536 bytes"));
}

TEST_CASE("a profiler that enters by the environment is named") {
  CHECK(ReadTools([](const char*) -> const char* { return nullptr; }).empty());
  CHECK(ReadTools([](const char* name) -> const char* {
          return strcmp(name, "CUDA_INJECTION64_PATH") == 0 ? "/opt/libcupti.so" : nullptr;
        }) == "tool=/opt/libcupti.so (CUDA_INJECTION64_PATH)\n");
}
