// Reads one number from one file.
#include "shim/pause/gpu_node.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "common/fd.h"

namespace parkade::shim {

int GpuNode(const Driver& driver, CUdevice device, const char* devices) {
  int domain = 0, bus = 0, slot = 0;
  const auto ask = [&](int* out, CUdevice_attribute attribute) {
    return driver.device_get_attribute(out, attribute, device) == CUDA_SUCCESS;
  };
  if (!ask(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) ||
      !ask(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) ||
      !ask(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)) {
    return kAnyNode;
  }
  char path[256];
  snprintf(path, sizeof path, "%s/%04x:%02x:%02x.0/numa_node", devices, unsigned(domain),
           unsigned(bus), unsigned(slot));
  const Fd file(open(path, O_RDONLY | O_CLOEXEC));
  char text[16] = {};
  if (!file || read(file.get(), text, sizeof text - 1) <= 0) return kAnyNode;
  const int node = atoi(text);
  return node < 0 ? kAnyNode : node;
}

}  // namespace parkade::shim
