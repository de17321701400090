// DeviceMemory: the driver calls that give a Range its addresses and handles and take them back.
//
// Knows no lock of the heap and no table: whoever calls owns the range. Needs no current context;
// any thread, also while the gate is closed.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <utility>

#include "common/mutex.h"
#include "shim/cuda/driver.h"
#include "shim/heap/range.h"
#include "shim/heap/rdma_hardware.h"

namespace parkade::shim {

class DeviceMemory {
 public:
  // `driver` outlives it. `rdma`: handles are to be such that can be registered, where the device
  // has them.
  explicit DeviceMemory(const Driver& driver, bool rdma = HasRdmaHardware());

  // What a device said when it was asked first.
  struct Device {
    Bytes granularity;
    Bytes total;  // memory of the device
    unsigned char uuid[16];
    bool posix_fd;      // handles can be exported as a file descriptor
    bool rdma;          // handles can be registered for GPUDirect RDMA
    bool rdma_memory;   // native memory can be registered
    bool decompressor;  // it has an engine that decompresses
  };
  // NOT_SUPPORTED when the device has no virtual memory management.
  CUresult Describe(int device, Device* out);

  // Creates one handle, exportable where the device allows it, and RDMA-capable where also wanted.
  // `bytes` is a multiple of the granularity.
  CUresult Create(int device, Bytes bytes, CUmemGenericAllocationHandle* out);

  // Lets the device, and those that have been allowed to use its memory, read and write all of what
  // is mapped there; no part may be unmapped.
  CUresult SetAccess(CUdeviceptr at, Bytes bytes, int device);
  // The same for every place of a range; what the application maps gets the access that it has set.
  CUresult SetAccess(const Range& range);
  CUresult SetAccess(const Range& range, const Piece& piece);

  // A handle for a piece that is to come back: of the kind that the range has.
  CUresult CreateAgain(const Range& range, Bytes bytes, CUmemGenericAllocationHandle* out);

  // Where a piece belongs: at its offset, and at each of the application's mappings of it.
  static std::vector<CUdeviceptr> PlacesOf(const Range& range, const Piece& piece);
  // Maps `handle` at the first `count` places of the piece, without access. On an error at none.
  CUresult MapAt(const Range& range, const Piece& piece, CUmemGenericAllocationHandle handle,
                 size_t count = SIZE_MAX);
  // Unmaps the piece at its places, one after the other; stops at the first that the driver
  // refuses. *count: at how many it is not mapped any more.
  CUresult Unmap(const Range& range, const Piece& piece, size_t* count);
  // The same at every place, whatever the driver says to one of them.
  void UnmapAll(const Range& range, const Piece& piece);

  // Why one device may use memory of another.
  enum class Peer : uint8_t {
    kEnabled = 1,  // the application has enabled peer access
    kCopies = 2,   // to copy it, which native memory needs no leave for
  };
  // From now on `user` may use memory of device `owner` for this reason too, or no longer; says
  // nothing to the driver. Whether that changes what it may.
  bool SetPeer(int owner, int user, Peer why, bool allowed);
  bool MayUse(int owner, int user);
  // Rises with each change: what was made before and after the same number has all that is allowed.
  uint64_t peer_changes() const { return peer_changes_.load(std::memory_order_acquire); }

  // Gives a range of the heap's own, of which device and bytes are set, its base and its pieces:
  // reserved, created, mapped, accessible. On an error nothing is left and the range is as before.
  CUresult Build(Range& range);

  // Unmaps and releases the pieces that have a handle, gives the addresses back. Errors are not
  // reported: the driver has either done it or lost the context with all its memory.
  void Destroy(Range& range);

 private:
  CUresult MapPieces(Range& range);
  void UnmapPieces(Range& range);
  void Remember(int device, bool posix_fd, bool rdma);

  const Driver& driver_;
  const bool rdma_;
  Mutex mu_;  // innermost
  std::map<int, Device> devices_ GUARDED_BY(mu_);
  // By owner and user, the reasons.
  std::map<std::pair<int, int>, uint8_t> peers_ GUARDED_BY(mu_);
  std::atomic<uint64_t> peer_changes_{0};
};

}  // namespace parkade::shim
