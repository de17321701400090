// ScratchDirectory: one process's directory of backup files, laid out as proto/scratch.h says.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/fd.h"
#include "daemon/fs_user.h"
#include "daemon/identity.h"

namespace parkade::daemon {

// One user at a time: the transition that has claimed the process, or the reaper after its end.
class ScratchDirectory {
 public:
  // Makes a new one in the open base: 0700, of the process's user, locked, with its owner record.
  // Nothing is left behind on failure.
  static absl::StatusOr<std::unique_ptr<ScratchDirectory>> Create(int base,
                                                                  const std::string& base_path,
                                                                  const Identity& owner,
                                                                  const FsUser& user);

  // Takes over one that the process holds from an earlier daemon, with the lock if it sent that; if
  // not, the process alone goes on holding it. PERMISSION_DENIED (BAD_SCRATCH) unless path, owner
  // record, user and lock all fit.
  static absl::StatusOr<std::unique_ptr<ScratchDirectory>> Adopt(const std::string& path, Fd lock,
                                                                 const Identity& owner,
                                                                 const FsUser& user);

  const std::string& path() const { return path_; }
  const std::string& base() const { return base_path_; }
  int lock() const { return lock_.get(); }  // -1: the process alone has it
  int data() const { return data_.get(); }
  Bytes bytes() const { return bytes_; }

  // Preallocates the data file up to `bytes`; never shrinks it. On failure (DISK_SPACE,
  // DISK_QUOTA, FILE_SIZE_LIMIT...) the file is as before.
  absl::Status Reserve(Bytes bytes);

  // Deletes it from the disk; the lock goes free when the last holder closes it.
  absl::Status Remove();

 private:
  ScratchDirectory(std::string base_path, std::string name, FsUser user)
      : base_path_(std::move(base_path)), name_(std::move(name)), user_(std::move(user)) {}
  absl::Status Fill(const Identity& owner);

  std::string base_path_;
  std::string name_;
  std::string path_;
  FsUser user_;
  Fd root_;  // <base>/parkade-v1
  Fd dir_;
  Fd lock_;
  Fd data_;
  Bytes bytes_ = 0;
};

// Opens <base>/parkade-v1, made when it is missing; refuses one that a stranger could tamper with.
absl::StatusOr<Fd> OpenScratchRoot(int base, const std::string& base_path, const FsUser& user);

}  // namespace parkade::daemon
