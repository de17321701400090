// Account: who holds how much memory of which simulated GPU, over all processes of the node.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/annotations.h"
#include "common/bytes.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "tests/sim/settings.h"

namespace parkade::sim {

struct AccountFile;

// One file in SIM_DIR, mapped by every process. A process with memory owns a slot and a POSIX lock
// on the slot's byte; the kernel drops the lock when the process ends in any way, and from then on
// nobody counts the slot. POSIX locks go away when any descriptor of the file is closed in the
// process, so an Account is never destroyed. Any thread.
class Account {
 public:
  // Opens or creates dir/account; only reads until Join. False if it is not usable.
  bool Open(const std::string& dir);
  // Takes a slot for this process. False when all are taken.
  bool Join();

  Bytes Used(int gpu);
  struct Holder {
    pid_t pid;
    Bytes bytes;
  };
  // Processes with memory on `gpu`. Shared memory counts for each that holds it.
  std::vector<Holder> Holders(int gpu);

  // Books `bytes` for this process, or returns false when fewer are free out of `total`.
  [[nodiscard]] bool Charge(int gpu, Bytes bytes, Bytes total);
  void Refund(int gpu, Bytes bytes);

  // Memory that other processes can open, named by the inode of its memfd, is counted once, while
  // any process holds it. Share turns bytes this process was charged for into such memory; Hold
  // adds this process to those that hold it. False when the table is full.
  [[nodiscard]] bool Share(uint64_t inode, int gpu, Bytes bytes);
  [[nodiscard]] bool Hold(uint64_t inode, int gpu, Bytes bytes);
  bool HeldElsewhere(uint64_t inode);
  void Drop(uint64_t inode);

  // A process's place in the driver's checkpoint, for every process to see. It lies in the shared
  // table and stays valid, whatever becomes of the process.
  struct Checkpoint {
    std::atomic<uint32_t> state;       // CUprocessState
    std::atomic<uint32_t> calls;       // inside the driver now
    std::atomic<uint32_t> calls_done;  // rises when `calls` falls while somebody may wait for it
  };
  // Of this process, after Join.
  Checkpoint& Own();
  // Null when no process with that pid has joined, or it has ended.
  Checkpoint* Of(pid_t pid);
  // Whether it holds memory that other processes can open.
  bool Shares(pid_t pid);
  // Takes all that a process holds out of the account, or back into it: false when a GPU has less
  // than that free out of `total`, and then nothing is taken.
  void Park(pid_t pid);
  [[nodiscard]] bool Unpark(pid_t pid, Bytes total);

 private:
  class Locked;
  bool Alive(size_t slot) const;
  std::optional<size_t> SlotOf(pid_t pid) const;
  bool AddHolder(uint64_t inode, int gpu, Bytes bytes) REQUIRES(mu_);
  Bytes Sum(int gpu) const;

  Fd fd_;
  AccountFile* file_ = nullptr;
  size_t slot_ = 0;
  uint64_t start_time_ = 0;
  Mutex mu_;  // the threads of this process; the file's byte 0 is locked inside it
};

}  // namespace parkade::sim
