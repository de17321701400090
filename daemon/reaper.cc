// One thread that deletes.
#include "daemon/reaper.h"

#include <utility>

#include "common/log.h"
#include "daemon/status.h"

namespace parkade::daemon {
namespace {

void Remove(ScratchDirectory& directory) {
  if (!directory.owner_visible()) {
    Log(LogLevel::kInfo, "%s stays: whether its process lives cannot be seen from here",
        directory.path().c_str());
    return;
  }
  const absl::Status removed = directory.Remove();
  if (removed.ok()) {
    Log(LogLevel::kInfo, "removed %s, its process has ended", directory.path().c_str());
  } else {
    Log(LogLevel::kWarning, "%s", MessageOf(removed).c_str());
  }
}

}  // namespace

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
  Later([directory = std::move(directory)] { Remove(*directory); });
}

void Reaper::Later(std::function<void()> work) {
  const MutexLock lock(mu_);
  work_.push_back(std::move(work));
  changed_.NotifyAll();
}

void Reaper::Loop() {
  sweep_();
  for (;;) {
    std::function<void()> next;
    {
      const MutexLock lock(mu_);
      while (work_.empty() && !ending_) changed_.WaitUntil(mu_, Deadline::InMs(3'600'000));
      if (work_.empty()) break;
      next = std::move(work_.front());
      work_.pop_front();
    }
    next();
  }
  // Of those that ended while the daemon did.
  sweep_();
}

}  // namespace parkade::daemon
