// DeviceMemory: the driver calls that give a Range its addresses and handles and take them back.
//
// Knows no lock of the heap and no table: whoever calls owns the range. Needs no current context;
// any thread, also while the gate is closed.
#pragma once

#include <map>

#include "common/mutex.h"
#include "shim/cuda/driver.h"
#include "shim/heap/range.h"

namespace parkade::shim {

class DeviceMemory {
 public:
  explicit DeviceMemory(const Driver& driver);  // which outlives it

  // What a device said when it was asked first.
  struct Device {
    Bytes granularity;
    Bytes total;  // memory of the device
    unsigned char uuid[16];
    bool posix_fd;  // handles can be exported as a file descriptor
    bool rdma;      // handles can be registered for GPUDirect RDMA
  };
  // NOT_SUPPORTED when the device has no virtual memory management.
  CUresult Describe(int device, Device* out);

  // Creates one handle, exportable and RDMA-capable where the device allows it. `bytes` is a
  // multiple of the granularity.
  CUresult Create(int device, Bytes bytes, CUmemGenericAllocationHandle* out);

  // Lets the range's device read and write all of it; every piece must be mapped.
  CUresult SetAccess(const Range& range);

  // Gives a range of which device and bytes are set its base and its pieces: reserved, created,
  // mapped, accessible. On an error nothing is left and the range is as before.
  CUresult Build(Range& range);

  // Unmaps and releases the pieces that have a handle, gives the addresses back. Errors are not
  // reported: the driver has either done it or lost the context with all its memory.
  void Destroy(Range& range);

 private:
  CUresult MapPieces(Range& range);
  void UnmapPieces(Range& range);
  void Remember(int device, bool posix_fd, bool rdma);

  const Driver& driver_;
  Mutex mu_;  // innermost
  std::map<int, Device> devices_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
