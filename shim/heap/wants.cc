// The queue, with an eventfd to wake the agent.
#include "shim/heap/wants.h"

#include <errno.h>
#include <sys/eventfd.h>

#include <utility>

namespace parkade::shim {

Result<void> Wants::Init() {
  fd_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd_) return OsError(errno, "eventfd");
  return {};
}

void Wants::Add(const Want& want) {
  {
    MutexLock lock(mu_);
    if (wants_.size() == kMost) return;
    wants_.push_back(want);
  }
  eventfd_write(fd_.get(), 1);
}

std::vector<Wants::Want> Wants::Take() {
  eventfd_t count;
  (void)eventfd_read(fd_.get(), &count);
  MutexLock lock(mu_);
  return std::exchange(wants_, {});
}

}  // namespace parkade::shim
