// ScratchTrials: how the files of each scratch base are best used, found out by a short trial in
// the background and kept for as long as the daemon lives.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "common/io/disk_trial.h"
#include "common/mutex.h"
#include "daemon/fs_user.h"
#include "daemon/scratch_base.h"

namespace parkade::daemon {

class ScratchTrials {
 public:
  // Runs work some time later on another thread, one after the other.
  using Later = std::function<void(std::function<void()>)>;
  explicit ScratchTrials(ScratchRules rules) : rules_(std::move(rules)) {}

  // From now on trials are made. Starts those of the bases that the configuration names.
  void Begin(Later later) EXCLUDES(mu_);
  // A base is in use: it is tried as `user`, unless it has been or its disk has. Blocks for
  // nothing.
  void Note(const BaseChoice& choice, const FsUser& user) EXCLUDES(mu_);
  // What a trial found; without one, a setting that suits most disks and no rates.
  DiskRates Of(const std::string& base) const EXCLUDES(mu_);

 private:
  struct Entry {
    uint64_t device = 0;  // 0: not tried yet
    DiskRates rates;
  };
  void Try(const BaseChoice& choice, const FsUser& user) EXCLUDES(mu_);
  bool TriedBefore(const std::string& base, uint64_t device) EXCLUDES(mu_);

  const ScratchRules rules_;
  mutable Mutex mu_;  // innermost
  Later later_ GUARDED_BY(mu_);
  std::map<std::string, Entry> bases_ GUARDED_BY(mu_);
};

}  // namespace parkade::daemon
