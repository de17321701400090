// FaultyMemory: the pool's mapping of host memory, which remembers what it mapped and fails on
// request.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "common/fd.h"
#include "common/mutex.h"
#include "shim/pause/host_slice.h"

namespace parkade::shim {

// For all pools from now on; any thread.
class FaultyMemory {
 public:
  static void Reset() {
    MutexLock lock(mu_);
    mapped_.clear();
    fail_from_ = 0;
  }
  // The nth mapping from now on and all after it fail; 0: none does any more.
  static void FailFrom(size_t n) {
    MutexLock lock(mu_);
    fail_from_ = n == 0 ? 0 : mapped_.size() + n;
  }
  static size_t maps() {
    MutexLock lock(mu_);
    return mapped_.size();
  }
  static Result<char*> Map(Bytes bytes) {
    MutexLock lock(mu_);
    mapped_.push_back({nullptr, bytes});
    if (fail_from_ != 0 && mapped_.size() >= fail_from_) {
      return MakeError(Code::kResourceExhausted, "HOST_MEMORY", "mapping %llu MiB of host memory",
                       (unsigned long long)bytes >> 20);
    }
    auto memory = MapPages(bytes);
    if (memory.ok()) mapped_.back().memory = *memory;
    return memory;
  }
  // Whether it is the pool's.
  static bool Has(const void* memory) {
    MutexLock lock(mu_);
    for (const Mapped& each : mapped_) {
      if (each.memory != nullptr && memory >= each.memory && memory < each.memory + each.bytes) {
        return true;
      }
    }
    return false;
  }
  // Where pages of host memory begin with these bytes, which are `count`, 4096 at most.
  static std::vector<char*> Find(const void* bytes, size_t count) {
    MutexLock lock(mu_);
    std::vector<char*> found;
    std::vector<char> page(count);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return found;
    const Fd out(ends[0]), in(ends[1]);
    for (const Mapped& each : mapped_) {
      for (Bytes at = 0; each.memory != nullptr && at < each.bytes; at += 4096) {
        // By the kernel, since a part may be unmapped again.
        if (write(in.get(), each.memory + at, count) != ssize_t(count)) continue;
        if (read(out.get(), page.data(), count) != ssize_t(count)) return {};
        if (memcmp(page.data(), bytes, count) == 0) found.push_back(each.memory + at);
      }
    }
    return found;
  }

 private:
  struct Mapped {
    char* memory;
    Bytes bytes;
  };
  static inline Mutex mu_;
  static inline std::vector<Mapped> mapped_ GUARDED_BY(mu_);  // failed ones too
  static inline size_t fail_from_ GUARDED_BY(mu_) = 0;
};

}  // namespace parkade::shim
