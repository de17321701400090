// Opens memory to other devices for copies.
#include "shim/hooks/copies.h"

#include "shim/hooks/hooked.h"

namespace parkade::shim {

bool OpenToDevices(const void* caller, const CopyEnds& ends) {
  Parts* parts = PartsFor(caller);
  if (parts == nullptr) return false;
  InShim guard;
  bool opened = false;
  for (const CUdeviceptr end : ends) {
    auto allocation = parts->heap.Find(end);
    if (!allocation) allocation = parts->imports.Find(end);
    if (!allocation) continue;
    for (const Contexts::Entry& entry : parts->contexts.List()) {
      int can = 0;
      if (entry.device == allocation->device ||
          parts->driver.device_can_access_peer(&can, entry.device, allocation->device) !=
              CUDA_SUCCESS ||
          can == 0) {
        continue;
      }
      if (parts->heap.OpenForCopies(allocation->device, entry.device) &&
          parts->imports.SetPeer(allocation->device, entry.device, true) == CUDA_SUCCESS) {
        opened = true;
      }
    }
  }
  return opened;
}

}  // namespace parkade::shim
