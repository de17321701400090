// Tries each disk once.
#include "daemon/scratch_trials.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <thread>
#include <vector>

#include "common/log.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

constexpr uint64_t kTrialMs = 600;
// A trial must not be what fills a disk up.
constexpr Bytes kFreeForTrial = 16 * kTrialBytes;

class Threads final : public ThreadStarter {
 public:
  ~Threads() override { JoinAll(); }
  Result<void> Start(const char*, void (*run)(void*), void* arg) override {
    threads_.emplace_back(run, arg);
    return {};
  }
  void JoinAll() override {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::vector<std::thread> threads_;
};

// A file without a name, so that nothing is left whatever happens.
Result<Fd> NamelessFile(int base) {
  Fd file(openat(base, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return OsError(errno, "a file without a name");
  struct statvfs space;
  if (fstatvfs(file.get(), &space) != 0) return OsError(errno, "asking for free space");
  if (Bytes(space.f_bavail) * space.f_frsize < kFreeForTrial) {
    return OsError(ENOSPC, "looking for %llu MiB of free space",
                   (unsigned long long)kFreeForTrial >> 20);
  }
  return file;
}

std::string Described(const DiskRates& rates) {
  char text[160];
  snprintf(text, sizeof text, "requests of %llu KiB, %u deep%s, by %s%s",
           (unsigned long long)rates.setting.block >> 10, rates.setting.depth,
           rates.setting.registers_memory ? ", of registered memory" : "",
           rates.io_uring ? "io_uring" : "threads", rates.direct ? "" : ", through the page cache");
  if (rates.write_gbps == 0) return text;
  char speed[80];
  snprintf(speed, sizeof speed, ": %.1f GB/s written, %.1f GB/s read", rates.write_gbps,
           rates.read_gbps);
  return Cat(text, speed);
}

}  // namespace

void ScratchTrials::Begin(Later later) {
  {
    const MutexLock lock(mu_);
    later_ = std::move(later);
  }
  const FsUser daemon{geteuid(), getegid(), {}};
  for (const std::string& dir : rules_.dirs) Note({dir, BaseChoice::Source::kConfig}, daemon);
}

void ScratchTrials::Note(const BaseChoice& choice, const FsUser& user) {
  Later later;
  {
    const MutexLock lock(mu_);
    if (!later_ || !bases_.try_emplace(choice.path).second) return;
    later = later_;
  }
  later([this, choice, user] { Try(choice, user); });
}

DiskRates ScratchTrials::Of(const std::string& base) const {
  const MutexLock lock(mu_);
  const auto found = bases_.find(base);
  return found == bases_.end() ? DiskRates() : found->second.rates;
}

bool ScratchTrials::TriedBefore(const std::string& base, uint64_t device) {
  const MutexLock lock(mu_);
  const auto same = std::find_if(bases_.begin(), bases_.end(), [device](const auto& entry) {
    return entry.second.device == device;
  });
  if (same == bases_.end()) return false;
  bases_[base] = same->second;
  return true;
}

void ScratchTrials::Try(const BaseChoice& choice, const FsUser& user) {
  const auto base = OpenBase(rules_, choice, user);
  // What is wrong with it is said to whoever wants to use it.
  struct stat s;
  if (!base.ok() || fstat(base->get(), &s) != 0 || TriedBefore(choice.path, s.st_dev)) return;
  Result<DiskRates> rates = DiskRates();
  {
    const AsUser as_user(user);
    auto file = NamelessFile(base->get());
    rates = file.ok() ? TryDisk(std::move(*file), std::make_unique<Threads>(), kTrialMs)
                      : Result<DiskRates>(file.error());
  }
  if (!rates.ok()) {
    Log(LogLevel::kInfo, "scratch base %s was not tried: %s (errno %d)", choice.path.c_str(),
        rates.error().what, rates.error().os_errno);
    return;
  }
  Log(LogLevel::kInfo, "scratch base %s: %s", choice.path.c_str(), Described(*rates).c_str());
  const MutexLock lock(mu_);
  bases_[choice.path] = {s.st_dev, *rates};
}

}  // namespace parkade::daemon
