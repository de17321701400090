// Reaper: deletes the scratch directories of the dead, away from every other thread's way.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "common/mutex.h"
#include "daemon/scratch_directory.h"

namespace parkade::daemon {

class Reaper {
 public:
  // `sweep` looks for what earlier daemons left; called first and last, on the reaper's thread.
  explicit Reaper(std::function<void()> sweep);
  // Finishes what was buried.
  ~Reaper();

  // Any thread; does not wait. The directory's process has ended, or, where it could never be seen
  // from here, has gone away: then its directory stays for a daemon that can see it.
  void Bury(std::shared_ptr<ScratchDirectory> directory) EXCLUDES(mu_);
  // The same for other work on scratch that may take its time.
  void Later(std::function<void()> work) EXCLUDES(mu_);

 private:
  void Loop();

  const std::function<void()> sweep_;
  Mutex mu_;  // innermost; not held while files are deleted
  CondVar changed_;
  std::deque<std::function<void()>> work_ GUARDED_BY(mu_);
  bool ending_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace parkade::daemon
