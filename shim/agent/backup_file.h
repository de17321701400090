// BackupFile: one file without a name, in a directory that the program has named, for backups of
// what it pauses itself.
//
// Nothing in the directory shows it, so that others who use or wipe the directory cannot reach it,
// and the kernel takes it back with its last descriptor, however the process ends.
#pragma once

#include <limits.h>

#include <string>

#include "common/bytes.h"
#include "common/fd.h"
#include "common/result.h"

namespace parkade::shim {

// Operation thread, but for AbandonAfterFork.
class BackupFile {
 public:
  // A descriptor of a file with space for `bytes`: the last one while it is `in_use` or already in
  // that directory, else a new one. The space is taken now: DISK_SPACE, DISK_QUOTA,
  // FILE_SIZE_LIMIT; NO_FILE, NO_ACCESS, READ_ONLY where the directory does not do. On error the
  // last file stays.
  Result<Fd> Reserve(const std::string& directory, Bytes bytes, bool in_use);
  // The file that was last reserved lies in memory, whatever its name.
  bool is_in_memory() const;
  // Its descriptors elsewhere keep it.
  void Close();

  // In a forked child: lets go of the file, whose space would otherwise stay taken.
  void AbandonAfterFork();

 private:
  void ReadLink();

  Fd fd_;
  std::string directory_;
  Bytes bytes_ = 0;
  char link_[PATH_MAX] = {};  // what /proc says of its descriptors; empty: there is none
};

}  // namespace parkade::shim
