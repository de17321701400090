// GpuNode: the NUMA node that a GPU hangs on, as the kernel says in sysfs.
#pragma once

#include "shim/cuda/driver.h"

namespace parkade::shim {

constexpr int kAnyNode = -1;

// kAnyNode where the machine has one node alone, or does not say. `devices`: the folder with an
// entry for each PCI device.
int GpuNode(const Driver& driver, CUdevice device, const char* devices);
inline int GpuNode(const Driver& driver, CUdevice device) {
  return GpuNode(driver, device, "/sys/bus/pci/devices");
}

}  // namespace parkade::shim
