// JournalFile: a file of framed records that survives its writer's death at any instant.
//
// A frame is magic, length, checksum, bytes. A record is in the file when the write has returned:
// the page cache outlives the process. There is no fsync, since nothing that the records are about
// survives a reboot.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fd.h"

namespace parkade::daemon {

class JournalFile {
 public:
  // Longer records are refused, and not read: they would be held in memory for as long as the
  // daemon runs.
  static constexpr size_t kLongest = 256 << 10;

  struct Content {
    std::vector<std::string> records;  // the whole ones, up to the first that is not
    size_t lost_bytes = 0;             // behind them: a torn tail, or garbage
  };
  // Empty when there is no file. FAILED_PRECONDITION (UNSAFE_FILE) when it is not a regular file
  // of this user that nobody else can write to.
  static absl::StatusOr<Content> Read(const std::string& path);

  // Puts a file with these records in the place of the one at `path`, in one step, and opens it.
  static absl::StatusOr<JournalFile> Replace(const std::string& path,
                                             const std::vector<std::string>& records);

  // INVALID_ARGUMENT (TOO_LONG) leaves the file as it was. After any other failure it may lack the
  // record or end in a part of it, and the ones before it may be a lie without it.
  absl::Status Append(std::string_view record);
  uint64_t bytes() const { return bytes_; }
  // Forgets everything.
  void Empty();

 private:
  JournalFile(Fd fd, uint64_t bytes) : fd_(std::move(fd)), bytes_(bytes) {}

  Fd fd_;
  uint64_t bytes_;
};

}  // namespace parkade::daemon
