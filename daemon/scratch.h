// Scratch: gives each process that pauses to disk its directory, and takes back what a failed pause
// does not need.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "daemon/process.h"
#include "daemon/scratch_base.h"
#include "daemon/scratch_directory.h"
#include "daemon/scratch_sweep.h"
#include "daemon/scratch_trials.h"

namespace parkade::daemon {

class Scratch {
 public:
  // Remembers in a file of `state_dir` which bases were used, for the next daemon's sweep.
  Scratch(ScratchRules rules, std::string state_dir);

  // A process's directory for one pause, and how to undo having got it.
  class Use {
   public:
    Use() = default;
    const std::shared_ptr<ScratchDirectory>& directory() const { return directory_; }
    // How its files are best used.
    const DiskSetting& setting() const { return setting_; }
    // The pause has succeeded: a directory in another base that this one replaced goes, and a base
    // that was never tried is, now that nobody waits for it.
    void Keep();
    // The pause has failed and the process runs with its bytes: a directory made for it goes.
    void GiveBack();

   private:
    friend class Scratch;
    std::shared_ptr<Process> process_;
    std::shared_ptr<ScratchDirectory> directory_;
    std::shared_ptr<ScratchDirectory> replaced_;
    bool made_ = false;
    DiskSetting setting_;
    std::function<void()> try_;
  };

  // Sees to it that `use` has a directory with `bytes` preallocated, in the base that the request,
  // the process or the configuration names. May be called again to add bytes. `held` of them the
  // process has out in its directory: that stays its directory, with its own stripes, whatever is
  // configured; SCRATCH_IN_USE where another base is requested, or it is not whole. On failure
  // nothing that this call made is left. Only for whoever has claimed the process.
  absl::Status Reserve(const std::shared_ptr<Process>& process, const std::string& requested_base,
                       Bytes bytes, Use& use, Bytes held = 0);

  // Whether Reserve of so many bytes would find a base that will do and room in it now; quotas are
  // not asked. Makes nothing but, as Reserve, a base of the last resort.
  absl::Status Foretell(const Process& process, const std::string& requested_base, Bytes bytes,
                        Bytes held = 0) const;

  // Takes over the directory that a process holds from an earlier daemon (`lock` may be empty),
  // unless it has one already or the base is none that this or an earlier daemon may have used.
  // Touches no file, so that no file system can hold its caller up: whether the directory is what
  // the process says is seen at its next pause to disk, and before it is removed.
  void Adopt(Process& process, const std::string& path, Fd lock);

  // The shim of a process that lives has gone away. Where the process has become another program,
  // its directory goes. Blocks; only for whoever has claimed the process.
  void Forsake(Process& process);

  // Sweeps the bases that are configured, those used by earlier daemons and the places of the last
  // resort. Blocks; any thread.
  std::vector<SweptDirectory> SweepAll(const Sweep& sweep) const;
  // What sweeps have removed since the start.
  Bytes reclaimed_bytes() const { return reclaimed_.load(std::memory_order_relaxed); }

  const ScratchRules& rules() const { return rules_; }

  // From now on bases are tried, on the thread that `later` has.
  void BeginTrials(ScratchTrials::Later later) { trials_.Begin(std::move(later)); }
  DiskRates RatesOf(const std::string& base) const { return trials_.Of(base); }

 private:
  absl::StatusOr<std::shared_ptr<ScratchDirectory>> Make(const Process& process,
                                                         const BaseChoice& choice,
                                                         const FsUser& user);
  // The base for a process of which `held` bytes are out on disk.
  absl::StatusOr<BaseChoice> Choose(const Process& process, const std::string& requested_base,
                                    Bytes held) const;
  std::vector<DiskRates> RatesOf(const std::vector<std::string>& bases) const;
  bool MayHaveUsed(const std::string& path) EXCLUDES(mu_);
  void Remember(const std::string& base) EXCLUDES(mu_);
  std::string FileName() const { return state_dir_ + "/scratch-bases"; }

  const ScratchRules rules_;
  const std::string state_dir_;
  ScratchTrials trials_;
  mutable std::atomic<Bytes> reclaimed_{0};
  Mutex mu_;  // innermost
  std::set<std::string> remembered_ GUARDED_BY(mu_);
};

}  // namespace parkade::daemon
