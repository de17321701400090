// Imports: memory of other processes that this one has mapped through tokens in place of the
// driver's CUDA IPC.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/deadline.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "proto/wire.h"
#include "shim/cuda/driver.h"
#include "shim/heap/heap.h"
#include "shim/ipc/token.h"

namespace parkade::shim {

// One physical handle of an exporter, as a descriptor.
struct SharePiece {
  Bytes bytes;
  Fd descriptor;
};

class Imports {
 public:
  Imports(const Driver& driver, Heap& heap);  // which outlive it
  ~Imports();

  // Asks the exporter for the memory and waits until its bytes are in HBM: at the exporter's gate,
  // as it were, until that opens or the exporter ends. Application threads, gate not entered, since
  // this process may pause meanwhile. Null with *result: INVALID_HANDLE when the exporter has
  // ended, INVALID_VALUE when the allocation has been freed, OPERATING_SYSTEM.
  struct Import;
  std::unique_ptr<Import> Ask(const Token& token, CUresult* result);
  // Maps it where the current context can use it, and those devices that may use the heap's memory
  // of its device; keeps it until it is closed. Gate entered.
  CUresult Map(std::unique_ptr<Import> import, CUdeviceptr* out);

  // A token that is open in the current context already: one user more, as native.
  std::optional<CUdeviceptr> OpenAgain(const Token& token) EXCLUDES(mu_);
  // One user less; the last one unmaps it, after the work of its context. None: not ours.
  std::optional<CUresult> Close(CUdeviceptr ptr) EXCLUDES(mu_);

  // The allocation at `ptr`, as the exporter made it. Any thread.
  std::optional<AllocationView> Find(CUdeviceptr ptr) const EXCLUDES(mu_);
  // Whether `ptr` lies in what is mapped with an allocation, for ranges are mapped whole. Any
  // thread.
  bool Owns(CUdeviceptr ptr) const EXCLUDES(mu_);

  // From now on `user` may use imported memory of device `owner`, or no longer, but for what it has
  // imported itself. The heap has been told the same. Gate entered.
  CUresult SetPeer(int owner, int user, bool allowed) EXCLUDES(mu_);

  // The context is gone: so are its imports.
  void ForgetContext(CUcontext context) EXCLUDES(mu_);

  // --- around a pause; operation thread, with the gate closed: nobody opens or closes meanwhile
  // ---

  // Tells the exporters whether this process is about to pause.
  void Say(wire::ShareWord word) EXCLUDES(mu_);
  // Unmaps what belongs to exporters that pause as well; their memory can then leave HBM.
  void LetGo() EXCLUDES(mu_);
  // Maps all of that again at its addresses, as soon as each exporter has its bytes back.
  // FAILED_PRECONDITION EXPORTER_PAUSED at the deadline, or what the driver or the connection said;
  // what has been mapped stays so, and the call may be made again. Memory whose exporter has ended
  // or freed it meanwhile does not come back: nothing is at its addresses from then on, and its
  // exporter's pid is added to `gone`.
  Result<void> TakeBack(Deadline by, std::vector<int>* gone) EXCLUDES(mu_);

 private:
  CUresult MapPieces(Import& import, std::span<const SharePiece> pieces);
  CUresult SetAccess(const Import& import);
  // What is imported of `owner`'s memory and mapped, but for what `user` itself has imported.
  std::vector<std::pair<CUdeviceptr, Bytes>> SpansFor(int owner, int user) const EXCLUDES(mu_);
  // False: it is gone.
  Result<bool> TakeBackOne(Import& import, Deadline by);
  void Unmap(Import& import);
  void Drop(std::unique_ptr<Import> import);
  std::vector<Import*> All() const EXCLUDES(mu_);
  int OrdinalOf(const unsigned char (&uuid)[16]) const;

  const Driver& driver_;
  Heap& heap_;
  mutable Mutex mu_;  // innermost; nothing is sent, mapped or waited for while it is held
  std::map<CUdeviceptr, std::unique_ptr<Import>> imports_ GUARDED_BY(mu_);  // by base of the range
  uint64_t last_number_ GUARDED_BY(mu_) = 0;
};

}  // namespace parkade::shim
