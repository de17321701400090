// One thread that deletes.
#include "daemon/reaper.h"

#include <utility>

#include "common/log.h"
#include "daemon/status.h"

namespace parkade::daemon {

Reaper::Reaper(std::function<void()> sweep) : sweep_(std::move(sweep)) {
  thread_ = std::thread([this] { Loop(); });
}

Reaper::~Reaper() {
  {
    const MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void Reaper::Bury(std::shared_ptr<ScratchDirectory> directory) {
  const MutexLock lock(mu_);
  buried_.push_back(std::move(directory));
  changed_.NotifyAll();
}

void Reaper::Loop() {
  sweep_();
  for (;;) {
    std::shared_ptr<ScratchDirectory> next;
    {
      const MutexLock lock(mu_);
      while (buried_.empty() && !ending_) changed_.WaitUntil(mu_, Deadline::InMs(3'600'000));
      if (buried_.empty()) break;
      next = std::move(buried_.front());
      buried_.pop_front();
    }
    if (!next->owner_visible()) {
      Log(LogLevel::kInfo, "%s stays: whether its process lives cannot be seen from here",
          next->path().c_str());
      continue;
    }
    const absl::Status removed = next->Remove();
    if (removed.ok()) {
      Log(LogLevel::kInfo, "removed %s, its process has ended", next->path().c_str());
    } else {
      Log(LogLevel::kWarning, "%s", MessageOf(removed).c_str());
    }
  }
  // Of those that ended while the daemon did.
  sweep_();
}

}  // namespace parkade::daemon
