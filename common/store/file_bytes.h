// Whole reads and writes of a file at an offset, with errors that name it.
#pragma once

#include "common/bytes.h"
#include "common/result.h"

namespace parkade::store {

// Reads exactly `bytes` bytes. DATA_LOSS SHORT_FILE when the file ends before; otherwise as
// OsError. `name` is for the error.
Result<void> ReadAt(int fd, void* memory, Bytes bytes, Bytes offset, const char* name);
// Writes them all; as OsError.
Result<void> WriteAt(int fd, const void* memory, Bytes bytes, Bytes offset, const char* name);

}  // namespace parkade::store
