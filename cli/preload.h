// Getting libparkade.so into a program: where it is, whether it loads, what LD_PRELOAD becomes.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace parkade::cli {

// $PARKADE_LIBRARY, else libparkade.so beside this program (../lib and where distributions put it),
// as an absolute path. NOT_FOUND says where it was looked for.
absl::StatusOr<std::string> FindLibrary();

// Loads the library into this process as the dynamic loader would, and unloads it.
// FAILED_PRECONDITION with the loader's words when that fails or when it is not Parkade's.
absl::Status CheckLibrary(const std::string& library);

// `preload`, the value of LD_PRELOAD, with `library` at its end: whatever was there keeps its place
// in front. Unchanged when an entry is the same file already, also through a link. INVALID_ARGUMENT
// when an entry is another libparkade.so, or when the path cannot stand in LD_PRELOAD.
absl::StatusOr<std::string> MergePreload(const std::string& preload, const std::string& library);

// The file that execvp(3) would take for `command`; empty: none.
std::string LookUp(const std::string& command);

// FAILED_PRECONDITION when the kernel starts `program` in secure mode (setuid, setgid, file
// capabilities), in which the loader ignores LD_PRELOAD.
absl::Status CheckTakesPreload(const std::string& program);

}  // namespace parkade::cli
