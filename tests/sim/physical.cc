// Device memory as memfds: created, exported, imported, and taken off the account at the end.
#include "tests/sim/physical.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

namespace parkade::sim {
namespace {

constexpr char kName[] = "parkade-sim-gpu";

// The shared memory this process knows. Two descriptions of one file in one process would each see
// the other as somebody else's, so there is one Physical per inode at most. Never destroyed: device
// memory may be freed by exit handlers.
struct SharedMemory {
  struct Lingering {
    Fd fd;
    uint64_t inode;
  };
  Mutex mu;
  std::unordered_map<uint64_t, std::weak_ptr<Physical>> live GUARDED_BY(mu);
  std::vector<Lingering> lingering GUARDED_BY(mu);
};

SharedMemory& Shared() {
  static auto* shared = new SharedMemory;
  return *shared;
}

// A description of its own: leases count open descriptions, and they do not count the one that
// memfd_create returns.
Fd Reopen(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return Fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
}

// Whether any other description of the file is open or mapped, in whatever process. A write lease
// is granted only to the sole opener.
bool OpenElsewhere(int fd) {
  if (fcntl(fd, F_SETLEASE, F_WRLCK) == 0) {
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
  }
  return errno == EAGAIN;
}

// The GPU that the memfd's name tells, or -1.
int GpuOf(int fd) {
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  char target[128] = {};
  if (readlink(link.c_str(), target, sizeof target - 1) <= 0) return -1;
  int gpu = -1;
  const std::string pattern = std::string("/memfd:") + kName + "%d";
  return sscanf(target, pattern.c_str(), &gpu) == 1 ? gpu : -1;
}

constexpr Bytes kStep = 2_MiB;  // of managed memory on its way

}  // namespace

CUresult Physical::Create(Account& account, int gpu, Bytes bytes, Bytes total,
                          std::shared_ptr<Physical>* out) {
  SettleLingering(account);
  if (!account.Charge(gpu, bytes, total)) return CUDA_ERROR_OUT_OF_MEMORY;
  Fd fresh(memfd_create((kName + std::to_string(gpu)).c_str(), MFD_CLOEXEC));
  Fd fd = fresh ? Reopen(fresh.get()) : Fd();
  struct stat file = {};
  if (!fd || ftruncate(fd.get(), off_t(bytes)) != 0 || fstat(fd.get(), &file) != 0) {
    account.Refund(gpu, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  out->reset(new Physical(account, std::move(fd), gpu, bytes, file.st_ino));
  return CUDA_SUCCESS;
}

CUresult Physical::Import(Account& account, int fd, std::shared_ptr<Physical>* out) {
  const int gpu = GpuOf(fd);
  struct stat file = {};
  if (gpu < 0 || gpu >= kMaxGpus || fstat(fd, &file) != 0) return CUDA_ERROR_UNKNOWN;
  SharedMemory& known = Shared();
  MutexLock lock(known.mu);
  if (auto found = known.live.find(file.st_ino); found != known.live.end()) {
    *out = found->second.lock();
    if (*out != nullptr) return CUDA_SUCCESS;
  }
  Fd own = Reopen(fd);
  if (!own) return CUDA_ERROR_UNKNOWN;
  const Bytes bytes = Bytes(file.st_size);
  if (!account.Hold(file.st_ino, gpu, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  std::erase_if(known.lingering, [&](const auto& memory) { return memory.inode == file.st_ino; });
  out->reset(new Physical(account, std::move(own), gpu, bytes, file.st_ino));
  (*out)->shared_ = true;
  CUmemAllocationProp& prop = (*out)->prop;
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  known.live[file.st_ino] = *out;
  return CUDA_SUCCESS;
}

int Physical::Export() {
  Fd fd = Reopen(fd_.get());
  if (!fd) return -1;
  SharedMemory& known = Shared();
  MutexLock lock(known.mu);
  if (!shared_) {
    if (!account_.Share(inode_, gpu_, bytes_)) return -1;
    shared_ = true;
    known.live[inode_] = weak_from_this();
  }
  return fd.Release();
}

CUresult Physical::MoveToHost(Bytes at, Bytes bytes) {
  MutexLock lock(away_mu_);
  for (Bytes step = at / kStep * kStep; step < std::min(at + bytes, bytes_); step += kStep) {
    const Bytes size = std::min(kStep, bytes_ - step);
    if (away_.emplace(step, size).second) account_.Refund(gpu_, size);
  }
  return CUDA_SUCCESS;
}

CUresult Physical::MoveToGpu(Bytes at, Bytes bytes, Bytes total) {
  MutexLock lock(away_mu_);
  for (auto it = away_.lower_bound(at / kStep * kStep); it != away_.end();) {
    if (it->first >= at + bytes) break;
    if (!account_.Charge(gpu_, it->second, total)) return CUDA_ERROR_OUT_OF_MEMORY;
    it = away_.erase(it);
  }
  return CUDA_SUCCESS;
}

Physical::~Physical() {
  if (!shared_) {
    Bytes away = 0;
    {
      MutexLock lock(away_mu_);
      for (const auto& [step, size] : away_) away += size;
    }
    account_.Refund(gpu_, bytes_ - away);
    return;
  }
  SharedMemory& known = Shared();
  MutexLock lock(known.mu);
  // An import may have made a successor since the last owner let go.
  if (auto found = known.live.find(inode_); found != known.live.end()) {
    if (!found->second.expired()) return;
    known.live.erase(found);
  }
  if (account_.HeldElsewhere(inode_) || !OpenElsewhere(fd_.get())) {
    account_.Drop(inode_);
    return;
  }
  known.lingering.push_back({std::move(fd_), inode_});
}

void SettleLingering(Account& account) {
  SharedMemory& known = Shared();
  MutexLock lock(known.mu);
  std::erase_if(known.lingering, [&](const auto& memory) {
    if (!account.HeldElsewhere(memory.inode) && OpenElsewhere(memory.fd.get())) return false;
    account.Drop(memory.inode);
    return true;
  });
}

}  // namespace parkade::sim
