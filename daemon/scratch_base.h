// Scratch bases: which directory a process's backups go to, and whether it will do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/fd.h"
#include "daemon/fs_user.h"

namespace parkade::daemon {

// What the configuration says of bases; see Config.
struct ScratchRules {
  std::vector<std::string> dirs;
  std::vector<std::string> allow_tmpfs;
  std::vector<std::string> stripe = {};
};

// Where a base's name comes from; the earlier ones count first.
struct BaseChoice {
  std::string path;
  enum class Source { kRequest, kProcess, kConfig, kLastResort } source;
  std::vector<std::string> stripes = {};  // further bases, which take their part of the bytes
};

// What a process's environment asks for: empty, a base that it means (PARKADE_SCRATCH_DIR), or one
// that yields to the configuration's (below SCRATCH).
struct WantedBase {
  std::string_view path;
  bool yields = false;
};

// The base for a process: that of the request, else the one that its environment means, else the
// configuration's (all those that it stripes over), else the one that yields, else
// /scratch/parkade_<uid>.
BaseChoice ChooseBase(const ScratchRules& rules, std::string_view requested,
                      const WantedBase& wanted, uid_t uid);

// `path` is one of the directories that the configuration allows, or beneath one.
bool IsAllowedBase(const ScratchRules& rules, std::string_view path);

// Absolute, without "." or "..", short enough for the wire, not /tmp. INVALID_ARGUMENT
// (BAD_SCRATCH) otherwise.
absl::Status CheckBasePath(std::string_view path);

// Opens the base as `user`, following no symlink below the configured directory, and none above it
// that is not root's or the daemon's. A missing parkade_<uid> is made. Fails with BAD_SCRATCH
// (tmpfs, symlink, no directory, not allowed, a part that another user could change), NO_FILE,
// NO_ACCESS, READ_ONLY, or for the last resort NO_SCRATCH; the message names the path.
absl::StatusOr<Fd> OpenBase(const ScratchRules& rules, const BaseChoice& choice,
                            const FsUser& user);

// Opens a base to look for what is left in it: whoever's it is, on whatever file system.
absl::StatusOr<Fd> OpenForSweep(const ScratchRules& rules, const std::string& path);

// A base as the node's overview shows it.
struct BaseReport {
  std::string path;
  absl::Status usable;  // by the daemon's own user
  Bytes free_bytes = 0;
  bool stripe = false;
};
std::vector<BaseReport> ReportBases(const ScratchRules& rules);

}  // namespace parkade::daemon
