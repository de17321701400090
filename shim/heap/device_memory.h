// DeviceMemory: the driver calls that give a Range its addresses and handles and take them back.
//
// Knows no lock of the heap and no table: whoever calls owns the range. Needs no current context;
// any thread, also while the gate is closed.
#pragma once

#include <map>
#include <set>
#include <utility>

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

  // Lets the device, and those that have been allowed to use its memory, read and write all of what
  // is mapped there; no part may be unmapped.
  CUresult SetAccess(CUdeviceptr at, Bytes bytes, int device);
  CUresult SetAccess(const Range& range) {
    return SetAccess(range.base, range.bytes, range.device);
  }

  // From now on `user` may use memory of device `owner` too, or no longer; says nothing to the
  // driver.
  void SetPeer(int owner, int user, bool allowed);

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
  std::set<std::pair<int, int>> peers_ GUARDED_BY(mu_);  // owner and user
};

}  // namespace parkade::shim
