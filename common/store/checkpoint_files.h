// Small files of a checkpoint: read whole with a limit, or made to appear whole by a rename.
#pragma once

#include <string>

#include "common/bytes.h"
#include "common/fd.h"
#include "common/result.h"

namespace parkade::store {

// `name` in `directory`, a regular file and no link. DATA_LOSS TOO_LARGE above `most`; otherwise as
// OsError. `path` is for errors.
Result<std::string> ReadWhole(int directory, const std::string& name, Bytes most,
                              const std::string& path);
// Writes `temporary`, brings it to the disk, renames it to `name` and brings that to the disk. On
// error `name` is as it was, and `temporary` is gone. As OsError.
Result<void> AppearWhole(int directory, const std::string& temporary, const std::string& name,
                         const std::string& content, const std::string& path);
// Opens a directory for reading; not a link at its end. As OsError.
Result<Fd> OpenDirectory(const std::string& path);

}  // namespace parkade::store
