// ShareServer: gives other processes of the user the descriptors behind this process's memory, so
// that CUDA IPC works on memory which the driver's own IPC refuses.
//
// One thread, from the first export on. It holds what it has given for as long as the importer's
// connection lasts; see ShareOpen in proto/wire.h.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "common/deadline.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "shim/cuda/driver.h"
#include "shim/heap/heap.h"
#include "shim/ipc/share_channel.h"
#include "shim/ipc/token.h"
#include "shim/libc/thread.h"

namespace parkade::shim {

class ShareServer {
 public:
  ShareServer(const Driver& driver, Heap& heap);  // which outlive it
  ~ShareServer();

  // A handle for the allocation that `ptr` lies in; the first call opens the socket and starts the
  // thread. NOT_FOUND: no allocation of the heap. Application threads.
  Result<CUipcMemHandle> Export(CUdeviceptr ptr);

  // Whether `token` names memory of this very process.
  bool IsOwn(const Token& token) const;

  // --- around a pause; operation thread ---

  // From now on importers that ask whether they may let go are told so.
  void SetPausing(bool pausing) { pausing_.store(pausing, std::memory_order_release); }
  // Waits until every importer that has said kPrepared has let go or ended; false at the deadline,
  // or soon after `cancel` became true.
  bool WaitForImporters(Deadline by, const std::atomic<bool>& cancel) EXCLUDES(mu_);
  // Processes that have memory of this one mapped now, each once.
  std::vector<int> Importers() const EXCLUDES(mu_);

 private:
  // An importer's connection. The thread's own, but for what `mu_` guards.
  struct Import {
    ShareChannel channel;
    std::optional<wire::ShareOpen> asked;  // not yet answered: its bytes are out
    bool holds = false;
    CUdeviceptr range = 0;
    uint64_t range_number = 0;
    bool prepared = false;
    int pid = 0;  // as this process numbers it
  };

  static void Work(void* self);
  void Run();
  Result<void> Open() REQUIRES(mu_);
  // False: there is no descriptor for one more.
  bool Accept();
  // False: the connection is over.
  bool Hear(Import& import);
  bool Answer(Import& import);
  bool Grant(Import& import, const wire::ShareOpen& open, const Heap::Shared& shared);
  bool Note(Import& import, uint64_t op_id, wire::ShareWord word);
  void LetGo(Import& import);
  void Publish() EXCLUDES(mu_);

  const Driver& driver_;
  Heap& heap_;
  std::atomic<bool> pausing_{false};
  std::atomic<bool> stop_{false};
  std::vector<Import> imports_;  // thread

  mutable Mutex mu_;
  CondVar changed_;
  std::optional<Token> self_ GUARDED_BY(mu_);  // of which only the allocation is missing
  size_t waited_for_ GUARDED_BY(mu_) = 0;      // prepared importers that still hold
  std::vector<int> holders_ GUARDED_BY(mu_);   // of Importers()
  Fd listener_;                                // constant once self_ is there
  Fd wake_;
  Thread thread_;
};

}  // namespace parkade::shim
