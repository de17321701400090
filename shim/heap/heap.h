// Heap: takes the place of cuMemAlloc and cuMemFree with memory that can leave HBM and come back.
//
// It owns address ranges, handles and the table of allocations, and writes the ledger. It moves no
// bytes: pause/ does, on ranges that it takes with BeginEviction or BeginRestore.
#pragma once

#include <cuda.h>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "common/mutex.h"
#include "common/result.h"
#include "shim/cuda/driver.h"
#include "shim/heap/ledger_writer.h"
#include "shim/heap/range.h"

namespace parkade::shim {

// What a query about an address inside one of our allocations is answered from.
struct AllocationView {
  CUdeviceptr base;
  Bytes bytes;  // as the application asked
  int device;
  CUcontext context;
  uint64_t number;  // unique in the process, rising
  bool resident;    // false: the driver knows no memory there now
};

class Heap {
 public:
  // `driver` and `ledger` outlive it.
  Heap(const Driver& driver, LedgerWriter& ledger);
  ~Heap();

  // Application threads, with the gate entered. The current context decides the device. On success
  // *out is the base of `bytes` usable bytes, aligned as native. Errors are the native ones:
  // INVALID_VALUE for zero bytes, INVALID_CONTEXT, OUT_OF_MEMORY (after empty slabs went back to
  // the driver). No lock is held across a driver call.
  CUresult Allocate(CUdeviceptr* out, size_t bytes, std::string_view tag);

  // Application threads, gate not entered. False when `ptr` is not the base of an allocation of
  // ours
  // (*result untouched unless ptr lies inside one: then true and INVALID_VALUE, as native).
  // Otherwise frees with cudaFree's implicit wait for the device (shim/heap/implicit_wait.h; not
  // while the range is out), and *result is what the caller gets.
  bool Free(CUdeviceptr ptr, CUresult* result);

  // Any thread, any time, also while paused; lock held for the look-up alone.
  std::optional<AllocationView> Find(CUdeviceptr ptr) const;

  // The context is being destroyed or reset, after its work has ended: frees what was made under
  // it, as the driver does. Application threads.
  void ForgetContext(CUcontext context);

  // Gives empty slabs back to the driver; returns the bytes. Any thread, gate open or closed.
  Bytes Trim();

  // --- for pause/, on the agent's operation thread; one operation at a time ---

  // Every resident range becomes kMoving, with its live extents filled, and is returned in
  // address order. Empty slabs are given back first. The pointers stay valid until the operation
  // ends with Moved or MovedOut/MovedIn for each.
  std::vector<Range*> BeginEviction();
  // Every range that is out becomes kMoving and is returned in address order.
  std::vector<Range*> BeginRestore();
  // The range has left HBM: pieces whose handle is 0 are out. That is all of them, but for an
  // eviction that could be neither finished nor undone. `place` is what its records say from now
  // on. A range that was doomed in between is destroyed here: mapped pieces are unmapped and
  // released, its addresses and backing given back.
  void MovedOut(Range* range, wire::Place place);
  // The range is whole in HBM (it came back, or it never left). Doomed ranges as above.
  void MovedIn(Range* range);

  // Physical bytes of resident ranges, and live bytes that an eviction now would move.
  struct Totals {
    Bytes resident;
    Bytes live;
  };
  Totals Count() const;

  // Devices on which the heap has or had memory, each with the context to use there.
  struct DeviceContext {
    int device;
    CUcontext context;
  };
  std::vector<DeviceContext> Devices() const;
};

}  // namespace parkade::shim
