// Physical: memory of a simulated GPU, wherever it is mapped.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "common/bytes.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "tests/sim/account.h"
#include "tests/sim/cuda_api.h"

namespace parkade::sim {

// A memfd and its place in the account. Its bytes leave the account when the last owner in this
// process lets go, unless other processes hold it or a descriptor of it is still open anywhere.
class Physical : public std::enable_shared_from_this<Physical> {
 public:
  // CUDA_ERROR_OUT_OF_MEMORY when the GPU or the machine has no room.
  static CUresult Create(Account& account, int gpu, Bytes bytes, Bytes total,
                         std::shared_ptr<Physical>* out);
  // Takes over memory that another process exported as `fd`, which stays the caller's.
  // CUDA_ERROR_UNKNOWN, as on a card, when `fd` is no such memory.
  static CUresult Import(Account& account, int fd, std::shared_ptr<Physical>* out);
  ~Physical();

  // A new descriptor that any process can Import; the caller closes it. -1 when it cannot be made.
  int Export();

  // For managed memory: [at, at + bytes) moves to the host, or back, in whole steps of 2 MiB.
  // OUT_OF_MEMORY when the GPU has no room.
  CUresult MoveToHost(Bytes at, Bytes bytes);
  CUresult MoveToGpu(Bytes at, Bytes bytes, Bytes total);

  int gpu() const { return gpu_; }
  Bytes bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  uint64_t inode() const { return inode_; }

  CUmemAllocationProp prop = {};  // as its creator asked

 private:
  Physical(Account& account, Fd fd, int gpu, Bytes bytes, uint64_t inode)
      : account_(account), fd_(std::move(fd)), gpu_(gpu), bytes_(bytes), inode_(inode) {}

  Account& account_;
  Fd fd_;
  const int gpu_;
  const Bytes bytes_;
  const uint64_t inode_;
  bool shared_ = false;  // counted as shared memory rather than as this process's own
  Mutex away_mu_;        // the account is settled inside it
  std::map<Bytes, Bytes> away_ GUARDED_BY(away_mu_);  // steps that are on the host, with their size
};

// Takes memory off the account that was released here while a descriptor was open somewhere and
// that nobody has open any more. Call before the account is read.
void SettleLingering(Account& account);

}  // namespace parkade::sim
