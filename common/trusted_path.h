// Opens directories by paths that no other user can change underneath.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/fd.h"
#include "common/result.h"

namespace parkade {

// Whose the parts of a path may be. A symbolic link on the way must be root's or this process's
// user's in any case, and a directory that every user may write to must have the sticky bit.
enum class PathOwners {
  kRootOrSelf,  // directories too; nor may another group write to them
  kAnyone,      // somebody with the right to has chosen the path
};

// Opens the directory at the absolute `path` with O_PATH, part by part. The last part must not be a
// link, unless the path ends with "/". FAILED_PRECONDITION (UNSAFE_DIRECTORY) names the part that
// another user could change, or that is no directory; otherwise as OsError.
Result<Fd> OpenTrusted(const std::string& path, PathOwners owners);

// The same; makes what is missing: the last part with `mode`, those above it with 0755.
Result<Fd> MakeTrusted(const std::string& path, PathOwners owners, mode_t mode);

}  // namespace parkade
