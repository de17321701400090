// Keeps the settings, which begin as the environment says.
#include "shim/heap/saver_settings.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "common/log.h"
#include "common/mutex.h"
#include "common/text.h"

// glibc since 2.3: what pthread_atfork calls, which older glibc keeps in libpthread.
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* dso);
extern "C" void* __dso_handle;

namespace parkade::shim {
namespace {

constexpr char kDefaultTag[] = "default";
constexpr char kDefaultDirectory[] = "/tmp";
constexpr Bytes kDefaultChunk = 256_MiB, kLeastChunk = 8_MiB, kMostChunk = 4_GiB;

thread_local constinit SaverSettings::Thread mine{};
constinit std::atomic<Bytes> margin_bytes{0};

// What is said of a variable once set: a plain yes or no, as torch_memory_saver takes it.
bool IsOn(const char* variable) {
  const char* value = getenv(variable);
  if (value == nullptr) return false;
  for (const char* yes : {"1", "true", "TRUE", "yes", "YES"}) {
    if (strcmp(value, yes) == 0) return true;
  }
  for (const char* no : {"", "0", "false", "FALSE", "no", "NO"}) {
    if (strcmp(value, no) == 0) return false;
  }
  Log(LogLevel::kWarning, "%s=%s is ignored: 1, true, yes, 0, false and no are known", variable,
      value);
  return false;
}

// Read once in a process.
struct Defaults {
  bool region = IsOn("TMS_INIT_ENABLE");
  bool cpu_backup = IsOn("TMS_INIT_ENABLE_CPU_BACKUP");
  bool disk_backup = IsOn("TMS_INIT_ENABLE_DISK_BACKUP");
  bool pageable = false;
  Bytes chunk = kDefaultChunk;
  std::atomic<bool> retains{IsOn("TMS_RETAIN_CPU_BACKUP")};
  Mutex mu;  // innermost
  std::string directory GUARDED_BY(mu);

  Defaults();
};

Defaults::Defaults() {
  const char* backend = getenv("TMS_INIT_CPU_BACKUP_BACKEND");
  pageable = backend != nullptr && strcmp(backend, "mmap") == 0;
  if (backend != nullptr && !pageable && *backend != '\0' && strcmp(backend, "pinned") != 0) {
    Log(LogLevel::kWarning, "TMS_INIT_CPU_BACKUP_BACKEND=%s is ignored: pinned and mmap are known",
        backend);
  }
  const char* named = getenv("TMS_DISK_BACKUP_DIR");
  directory = named == nullptr || *named == '\0' ? kDefaultDirectory : named;
  const char* size = getenv("TMS_DISK_BACKUP_CHUNK_MB");
  if (size == nullptr) return;
  uint64_t mib = 0;
  const char* end = size + strlen(size);
  const auto read = std::from_chars(size, end, mib);
  if (read.ec != std::errc() || read.ptr != end || mib > kMostChunk >> 20) {
    Log(LogLevel::kWarning,
        "TMS_DISK_BACKUP_CHUNK_MB=%s is ignored: MiB are expected, 4096 at most", size);
  } else if (mib != 0) {
    chunk = std::max(Bytes(mib << 20), kLeastChunk);
  }
}

constinit std::atomic<Defaults*> the_defaults{nullptr};

// In a forked child, where nobody is left who may have held it.
void ResetAfterFork() {
  if (Defaults* all = the_defaults.load(std::memory_order_acquire)) all->mu.ResetAfterFork();
}

// Never destroyed: hooks run until the process ends.
Defaults& All() {
  Defaults* known = the_defaults.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  auto* made = new Defaults;
  if (!the_defaults.compare_exchange_strong(known, made, std::memory_order_acq_rel)) {
    delete made;  // another thread was faster
    return *known;
  }
  __register_atfork(nullptr, nullptr, ResetAfterFork, &__dso_handle);
  return *made;
}

}  // namespace

Saving SaverSettings::Thread::saving() const {
  if (disk_backup) return Saving::kDisk;
  if (!cpu_backup) return Saving::kDiscard;
  return pageable ? Saving::kPageable : Saving::kPinned;
}

SaverSettings::Thread& SaverSettings::Mine() {
  if (mine.known) return mine;
  const Defaults& all = All();
  mine = {true, all.region, all.cpu_backup, all.disk_backup, all.pageable, {}};
  CopyText(mine.tag, kDefaultTag);
  return mine;
}

Bytes SaverSettings::margin() { return margin_bytes.load(std::memory_order_relaxed); }

void SaverSettings::SetMargin(Bytes bytes) { margin_bytes.store(bytes, std::memory_order_relaxed); }

bool SaverSettings::retains() { return All().retains.load(std::memory_order_relaxed); }

void SaverSettings::SetRetains(bool retains) {
  All().retains.store(retains, std::memory_order_relaxed);
}

std::string SaverSettings::directory() {
  Defaults& all = All();
  MutexLock lock(all.mu);
  return all.directory;
}

void SaverSettings::SetDirectory(std::string_view directory) {
  Defaults& all = All();
  MutexLock lock(all.mu);
  all.directory = directory;
}

Bytes SaverSettings::chunk() { return All().chunk; }

}  // namespace parkade::shim
