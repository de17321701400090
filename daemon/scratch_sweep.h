// Finds scratch directories whose process is dead, and removes scratch directories.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fd.h"
#include "daemon/identity.h"
#include "proto/scratch.h"

namespace parkade::daemon {

// "p<pid>-<24 hex digits>".
bool IsScratchName(std::string_view name);

struct OwnedDirectory {
  Fd fd;
  wire::OwnerRecord owner;
};
// Opens a scratch directory and reads its owner record; follows no symlink. PERMISSION_DENIED
// (BAD_SCRATCH) when it is none of ours: another layout, or another user's record in it.
absl::StatusOr<OwnedDirectory> OpenOwned(int root, const std::string& name);

// Deletes the files of one scratch directory, then it. Leaves what it does not know, and then the
// directory too. `path` is for messages.
absl::Status RemoveScratch(int root, const std::string& name, const std::string& path);

// Removes every provably dead directory of `base` (proto/scratch.h says what that is). Leaves
// everything else alone, and all of a network file system on which the owner may be on another
// machine. Returns how many went.
int SweepBase(const std::string& base, const std::function<Life(const wire::OwnerRecord&)>& life);

// The bases that a sweep looks at: those configured, the parkade_<uid> beneath them, those of the
// last resort, and those `remembered`.
std::vector<std::string> BasesToSweep(const std::vector<std::string>& configured,
                                      const std::vector<std::string>& remembered);

}  // namespace parkade::daemon
