// Settings: what the simulated node consists of, from the environment and SIM_DIR/config.
#pragma once

#include <cstdint>
#include <string>

#include "common/bytes.h"

namespace parkade::sim {

constexpr int kMaxGpus = 16;
constexpr Bytes kGranularity = 2_MiB;

struct Settings {
  std::string dir;                // SIM_DIR: where the processes of the node meet
  int gpus = 1;                   // SIM_GPUS
  Bytes gpu_bytes = 4_GiB;        // SIM_GPU_BYTES
  Bytes context_bytes = 16_MiB;   // SIM_CONTEXT_BYTES: what a process pays per device it has opened
  uint64_t link_bytes_per_s = 0;  // SIM_LINK_GBPS, each direction of each GPU; 0: not throttled
  bool mps = false;               // SIM_MPS: says that MPS shares its GPUs
  bool mig = false;               // SIM_MIG: says that its GPUs are slices of one
  bool cc = false;                // SIM_CC: says that confidential computing is on
  bool checkpoint_breaks = false;  // SIM_CHECKPOINT_BREAKS: a checkpoint leaves its process FAILED
};

// Reads SIM_DIR/config (lines such as `gpu_bytes 8G`) and then the environment, which wins. An
// unreadable value ends the process with a message: a test on the wrong node proves nothing.
Settings ReadSettings();

}  // namespace parkade::sim
