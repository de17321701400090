// ScratchDirectory: one process's directory of backup files, laid out as proto/scratch.h says.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "daemon/fs_user.h"
#include "daemon/identity.h"

namespace parkade::daemon {

// Any thread, but one at a time of Check, Reserve and LetGo: whoever has claimed the process. The
// reaper's Remove may come in the middle of them, when the process has ended.
class ScratchDirectory {
 public:
  // Makes a new one in the open base: 0700, of the process's user, locked, with its owner record.
  // Nothing is left behind on failure.
  static absl::StatusOr<std::unique_ptr<ScratchDirectory>> Create(int base,
                                                                  const std::string& base_path,
                                                                  const Identity& owner,
                                                                  const FsUser& user);

  // Stands for one that the process says it holds from an earlier daemon, with the lock if it sent
  // that; if not, the process alone goes on holding it. Touches no file. PERMISSION_DENIED
  // (BAD_SCRATCH) for a path that no scratch directory can have.
  // Its stripes, of which the process does not know, are looked for in `stripe_bases` once it is.
  static absl::StatusOr<std::unique_ptr<ScratchDirectory>> Claimed(
      const std::string& path, Fd lock, const Identity& owner, const FsUser& user,
      std::vector<std::string> stripe_bases = {});

  const std::string& path() const { return path_; }
  const std::string& base() const { return base_path_; }
  int lock() const { return lock_.get(); }  // -1: the process alone has it
  // -1 for a claimed one before Check.
  int data() const;
  // 0 for a claimed one before Check. Without its stripes.
  Bytes bytes() const { return bytes_; }

  // Directories of the same process in other bases that share its bytes; they go with it.
  using Stripes = std::vector<std::shared_ptr<ScratchDirectory>>;
  Stripes stripes() const EXCLUDES(mu_);
  void Join(std::shared_ptr<ScratchDirectory> stripe) EXCLUDES(mu_);
  // Of it and its stripes.
  std::vector<int> AllData() const;
  Bytes AllBytes() const;
  // Preallocates so many bytes over it and its stripes, by their weights in that order, each
  // above 0. As Reserve.
  absl::Status ReserveAll(Bytes bytes, std::span<const double> weights);
  // The process was seen to end where it could be seen at all; see Identity.
  bool owner_visible() const { return owner_.visible; }

  // Whether the directory of that name in the open base is still this one, with its data file.
  // For a claimed one, whether path, owner record, user and lock all fit. PERMISSION_DENIED
  // (BAD_SCRATCH) or NOT_FOUND: this one is of no use any more.
  absl::Status Check(int base);

  // Preallocates the data file up to `bytes`; never shrinks it. On failure (DISK_SPACE,
  // DISK_QUOTA, FILE_SIZE_LIMIT...) the file is as before. After Create or a good Check.
  absl::Status Reserve(Bytes bytes);

  // Gives up the daemon's hold on the lock and says whether the process has none either: it has
  // become another program (exec), and nobody can read the backup any more.
  bool LetGo();

  // Deletes it and its stripes from the disk; the lock goes free when the last holder closes it. A
  // claimed one is checked first.
  absl::Status Remove();

 private:
  struct Files {
    Fd root;  // <base>/parkade-v1
    Fd dir;
    Fd data;
  };

  ScratchDirectory(std::string base_path, std::string name, const Identity& owner, FsUser user);
  absl::Status Fill(Files& files);
  absl::Status Open();
  absl::Status OpenOwn();
  void FindStripes();
  void ShrinkTo(Bytes bytes);
  std::shared_ptr<const Files> files() const EXCLUDES(mu_);

  const std::string base_path_;
  const std::string name_;
  const std::string path_;
  const Identity owner_;
  const FsUser user_;
  Fd lock_;
  std::atomic<Bytes> bytes_ = 0;
  mutable Mutex mu_;                                    // innermost; no file is touched under it
  std::shared_ptr<const Files> files_ GUARDED_BY(mu_);  // null: claimed, not opened yet
  Stripes stripes_ GUARDED_BY(mu_);
  std::vector<std::string> stripe_bases_;  // of a claimed one, until they have been looked through
};

// Opens <base>/parkade-v1, made when it is missing; refuses one that a stranger could tamper with.
absl::StatusOr<Fd> OpenScratchRoot(int base, const std::string& base_path, const FsUser& user);

}  // namespace parkade::daemon
