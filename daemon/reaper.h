// Reaper: deletes the scratch directories of the dead, away from every other thread's way.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "daemon/scratch_directory.h"

namespace parkade::daemon {

class Reaper {
 public:
  // Starts with a sweep of `bases` for directories that earlier daemons left.
  explicit Reaper(std::vector<std::string> bases);
  // Finishes what was buried.
  ~Reaper();

  // Any thread; does not wait. The directory's process has ended.
  void Bury(std::shared_ptr<ScratchDirectory> directory) EXCLUDES(mu_);

 private:
  void Loop();

  const std::vector<std::string> bases_;
  Mutex mu_;  // innermost; not held while files are deleted
  CondVar changed_;
  std::deque<std::shared_ptr<ScratchDirectory>> buried_ GUARDED_BY(mu_);
  bool ending_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace parkade::daemon
