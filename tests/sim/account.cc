// The shared table behind Account. Every change is one store into one record, so that a process
// killed anywhere leaves a table that adds up.
#include "tests/sim/account.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace parkade::sim {
namespace {

constexpr size_t kProcesses = 256;
constexpr size_t kShared = 4096;
constexpr uint64_t kMagic = 0x324e5543434d4953;  // "SIMCCUN2"

}  // namespace

struct AccountFile {
  struct Process {
    std::atomic<uint64_t> pid;         // 0: never used
    std::atomic<uint64_t> start_time;  // of that pid, in clock ticks since boot
    std::atomic<uint64_t> bytes[kMaxGpus];
    std::atomic<uint64_t> parked[kMaxGpus];
    Account::Checkpoint checkpoint;
  };
  struct Shared {
    std::atomic<uint64_t> inode;  // 0: never used
    std::atomic<uint64_t> bytes;
    uint64_t gpu;
    std::atomic<uint64_t> holders[kProcesses / 64];  // a bit per slot
  };
  uint64_t magic;
  Process processes[kProcesses];
  Shared shared[kShared];
};

namespace {

struct flock ByteLock(short type, off_t byte) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

// When this process was started: field 22 of its stat line, counted behind the name's bracket.
uint64_t OwnStartTime() {
  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return strtoull(field.c_str(), nullptr, 10);
}

off_t SlotByte(size_t slot) { return off_t(1 + slot); }

bool HasHolder(const AccountFile::Shared& shared, size_t slot) {
  return (shared.holders[slot / 64] >> (slot % 64) & 1) != 0;
}

}  // namespace

// Holds the table against the other threads of this process and against other processes.
class SCOPED_CAPABILITY Account::Locked {
 public:
  explicit Locked(Account& account) ACQUIRE(account.mu_) : account_(account) {
    account_.mu_.Lock();
    struct flock lock = ByteLock(F_WRLCK, 0);
    while (fcntl(account_.fd_.get(), F_SETLKW, &lock) != 0 && errno == EINTR) {
    }
  }
  ~Locked() RELEASE() {
    struct flock lock = ByteLock(F_UNLCK, 0);
    fcntl(account_.fd_.get(), F_SETLK, &lock);
    account_.mu_.Unlock();
  }

 private:
  Account& account_;
};

bool Account::Open(const std::string& dir) {
  fd_.Reset(open((dir + "/account").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd_) return false;
  start_time_ = OwnStartTime();
  Locked locked(*this);
  struct stat file = {};
  if (fstat(fd_.get(), &file) != 0) return false;
  const bool fresh = file.st_size == 0;
  if (fresh && ftruncate(fd_.get(), sizeof(AccountFile)) != 0) return false;
  if (!fresh && file.st_size != off_t(sizeof(AccountFile))) return false;
  void* map = mmap(nullptr, sizeof(AccountFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (map == MAP_FAILED) return false;
  file_ = static_cast<AccountFile*>(map);
  if (fresh) file_->magic = kMagic;
  return file_->magic == kMagic;
}

bool Account::Join() {
  Locked locked(*this);
  // The image before an exec had the same pid and start time.
  for (AccountFile::Process& process : file_->processes)
    if (process.pid == uint64_t(getpid())) process.pid = 0;
  for (size_t slot = 0; slot < kProcesses; ++slot) {
    struct flock lock = ByteLock(F_WRLCK, SlotByte(slot));
    if (fcntl(fd_.get(), F_SETLK, &lock) != 0) continue;  // its owner lives
    AccountFile::Process& process = file_->processes[slot];
    for (auto& bytes : process.bytes) bytes = 0;
    for (auto& bytes : process.parked) bytes = 0;
    process.checkpoint.state = process.checkpoint.calls = 0;
    for (AccountFile::Shared& shared : file_->shared)
      if (HasHolder(shared, slot)) shared.holders[slot / 64] &= ~(uint64_t{1} << (slot % 64));
    process.start_time = start_time_;
    process.pid = uint64_t(getpid());
    slot_ = slot;
    return true;
  }
  return false;
}

bool Account::Alive(size_t slot) const {
  const AccountFile::Process& process = file_->processes[slot];
  if (process.pid == 0) return false;
  // F_GETLK does not show a process its own locks.
  if (process.pid == uint64_t(getpid())) return process.start_time == start_time_;
  struct flock lock = ByteLock(F_WRLCK, SlotByte(slot));
  return fcntl(fd_.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

Bytes Account::Sum(int gpu) const {
  uint64_t alive[kProcesses / 64] = {};
  Bytes sum = 0;
  for (size_t slot = 0; slot < kProcesses; ++slot) {
    if (!Alive(slot)) continue;
    alive[slot / 64] |= uint64_t{1} << (slot % 64);
    sum += file_->processes[slot].bytes[gpu];
  }
  for (const AccountFile::Shared& shared : file_->shared) {
    if (shared.inode == 0) break;  // filled from the front
    bool held = false;
    for (size_t i = 0; i < kProcesses / 64; ++i) held |= (shared.holders[i] & alive[i]) != 0;
    if (held && shared.gpu == uint64_t(gpu)) sum += shared.bytes;
  }
  return sum;
}

Bytes Account::Used(int gpu) {
  Locked locked(*this);
  return Sum(gpu);
}

std::vector<Account::Holder> Account::Holders(int gpu) {
  Locked locked(*this);
  std::vector<Holder> holders;
  for (size_t slot = 0; slot < kProcesses; ++slot) {
    if (!Alive(slot)) continue;
    Bytes bytes = file_->processes[slot].bytes[gpu];
    for (const AccountFile::Shared& shared : file_->shared) {
      if (shared.inode == 0) break;
      if (shared.gpu == uint64_t(gpu) && HasHolder(shared, slot)) bytes += shared.bytes;
    }
    if (bytes != 0) holders.push_back({pid_t(file_->processes[slot].pid), bytes});
  }
  return holders;
}

bool Account::Charge(int gpu, Bytes bytes, Bytes total) {
  Locked locked(*this);
  const Bytes used = Sum(gpu);
  if (used > total || bytes > total - used) return false;
  file_->processes[slot_].bytes[gpu] += bytes;
  return true;
}

void Account::Refund(int gpu, Bytes bytes) {
  Locked locked(*this);
  file_->processes[slot_].bytes[gpu] -= bytes;
}

bool Account::AddHolder(uint64_t inode, int gpu, Bytes bytes) {
  AccountFile::Shared* entry = nullptr;
  for (AccountFile::Shared& shared : file_->shared) {
    if (shared.inode == inode) {
      entry = &shared;
      break;
    }
    bool held = false;
    for (auto& holders : shared.holders) held |= holders != 0;
    if (entry == nullptr && !held) entry = &shared;
    if (shared.inode == 0) break;
  }
  if (entry == nullptr) return false;
  entry->gpu = uint64_t(gpu);
  entry->bytes = bytes;
  entry->inode = inode;
  entry->holders[slot_ / 64] |= uint64_t{1} << (slot_ % 64);
  return true;
}

bool Account::Share(uint64_t inode, int gpu, Bytes bytes) {
  Locked locked(*this);
  if (!AddHolder(inode, gpu, bytes)) return false;
  file_->processes[slot_].bytes[gpu] -= bytes;
  return true;
}

bool Account::Hold(uint64_t inode, int gpu, Bytes bytes) {
  Locked locked(*this);
  return AddHolder(inode, gpu, bytes);
}

bool Account::HeldElsewhere(uint64_t inode) {
  Locked locked(*this);
  for (const AccountFile::Shared& shared : file_->shared) {
    if (shared.inode == 0) break;
    if (shared.inode != inode) continue;
    for (size_t slot = 0; slot < kProcesses; ++slot)
      if (slot != slot_ && HasHolder(shared, slot) && Alive(slot)) return true;
  }
  return false;
}

void Account::Drop(uint64_t inode) {
  Locked locked(*this);
  for (AccountFile::Shared& shared : file_->shared) {
    if (shared.inode == 0) break;
    if (shared.inode == inode) shared.holders[slot_ / 64] &= ~(uint64_t{1} << (slot_ % 64));
  }
}

Account::Checkpoint& Account::Own() { return file_->processes[slot_].checkpoint; }

std::optional<size_t> Account::SlotOf(pid_t pid) const {
  for (size_t slot = 0; slot < kProcesses; ++slot) {
    if (file_->processes[slot].pid == uint64_t(pid) && Alive(slot)) return slot;
  }
  return std::nullopt;
}

Account::Checkpoint* Account::Of(pid_t pid) {
  Locked locked(*this);
  const auto slot = SlotOf(pid);
  return slot ? &file_->processes[*slot].checkpoint : nullptr;
}

bool Account::Shares(pid_t pid) {
  Locked locked(*this);
  const auto slot = SlotOf(pid);
  for (const AccountFile::Shared& shared : file_->shared) {
    if (!slot || shared.inode == 0) break;
    if (HasHolder(shared, *slot)) return true;
  }
  return false;
}

void Account::Park(pid_t pid) {
  Locked locked(*this);
  const auto slot = SlotOf(pid);
  if (!slot) return;
  AccountFile::Process& process = file_->processes[*slot];
  for (int gpu = 0; gpu < kMaxGpus; ++gpu) process.parked[gpu] = process.bytes[gpu].exchange(0);
}

bool Account::Unpark(pid_t pid, Bytes total) {
  Locked locked(*this);
  const auto slot = SlotOf(pid);
  if (!slot) return false;
  AccountFile::Process& process = file_->processes[*slot];
  for (int gpu = 0; gpu < kMaxGpus; ++gpu) {
    const Bytes used = Sum(gpu);
    if (used > total || process.parked[gpu] > total - used) return false;
  }
  for (int gpu = 0; gpu < kMaxGpus; ++gpu) process.bytes[gpu] = process.parked[gpu].exchange(0);
  return true;
}

}  // namespace parkade::sim
