// Sites by base name, their counters, and whether the driver is initialized.
#include "tests/sim/calls.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <map>
#include <memory>

#include "common/fd.h"
#include "common/mutex.h"
#include "common/text.h"
#include "tests/sim/call_counts.h"
#include "tests/sim/faults.h"

namespace parkade::sim {
namespace {

std::atomic<bool> initialized{false};

std::string BaseName(std::string_view exported) {
  std::string name(exported);
  for (const char* suffix : {"_ptsz", "_ptds"})
    if (name.ends_with(suffix)) name.resize(name.size() - 5);
  const size_t mark = name.rfind("_v");
  if (mark != std::string::npos && mark + 3 == name.size() && isdigit(name.back()) != 0)
    name.resize(mark);
  return name;
}

// The records of SIM_COUNT_FILE, or private ones without it.
CallCount* MapCounts() {
  constexpr size_t kBytes = sizeof(CallCount) * kMaxCallCounts;
  std::string path;
  if (const char* wanted = getenv("SIM_COUNT_FILE")) path = wanted;
  if (const size_t mark = path.find("%p"); mark != std::string::npos)
    path.replace(mark, 2, std::to_string(getpid()));
  Fd fd;
  if (!path.empty()) fd.Reset(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (fd && ftruncate(fd.get(), kBytes) != 0) fd.Reset();
  void* map = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                   fd ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd.get(), 0);
  return map == MAP_FAILED ? nullptr : static_cast<CallCount*>(map);
}

}  // namespace

class Sites {
 public:
  Site& Find(const std::string& name) {
    MutexLock lock(mu_);
    auto& site = sites_[name];
    if (site == nullptr) {
      CallCount& record = records_[sites_.size() - 1];
      CopyText(record.name, name);
      site.reset(new Site(name, reinterpret_cast<std::atomic<uint64_t>*>(&record.calls)));
    }
    return *site;
  }

 private:
  Mutex mu_;
  CallCount* const records_ = MapCounts();
  std::map<std::string, std::unique_ptr<Site>> sites_ GUARDED_BY(mu_);
};

Site& Site::Of(std::string_view exported) {
  static auto* const sites = new Sites;
  return sites->Find(BaseName(exported));
}

std::optional<CUresult> Site::Arrive() {
  count_->fetch_add(1, std::memory_order_relaxed);
  return ApplyFaults(name_);
}

bool Initialized() { return initialized.load(std::memory_order_acquire); }

void SetInitialized() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    initialized.store(false, std::memory_order_relaxed);
    WatchCheckpoint(nullptr);
  });
  if (registered == 0) initialized.store(true, std::memory_order_release);
}

}  // namespace parkade::sim
