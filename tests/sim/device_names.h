// Names and UUIDs of the simulated GPUs, the same for the driver and for NVML.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace parkade::sim {

constexpr char kDeviceName[] = "Simulated H200";

// Stable: the same index is the same GPU in every process.
inline std::array<uint8_t, 16> DeviceUuid(int gpu) {
  return {0x51, 0x3d, 0x00, 0x01, 0x70, 0x61, 0x4b, 0x61,
          0x80, 0x64, 0x65, 0x00, 0x00, 0x00, 0x00, uint8_t(gpu)};
}

// As NVML writes it: GPU-513d0001-7061-4b61-8064-650000000000.
inline std::string DeviceUuidText(int gpu) {
  std::string text = "GPU-";
  const auto uuid = DeviceUuid(gpu);
  for (size_t i = 0; i < uuid.size(); ++i) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", uuid[i]);
    text += digits;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

}  // namespace parkade::sim
