// TimelineRecording: a file that everything added to the timeline is appended to.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/fd.h"
#include "proto/timeline.pb.h"

namespace parkade::daemon {

// Who adds to it holds a lock of his own.
class TimelineRecording {
 public:
  // Makes DIRECTORY/parkade-TIME-PID.timeline, readable by its owner alone; `directory` is made
  // where it is missing. Ends at `limit` bytes: what comes later is not recorded. An error of the
  // folder or file, with its path.
  static absl::StatusOr<std::unique_ptr<TimelineRecording>> Begin(const std::string& directory,
                                                                  Bytes limit);
  TimelineRecording(Fd file, std::string path, Bytes limit)
      : file_(std::move(file)), path_(std::move(path)), limit_(limit) {}

  // Writes to the page cache. A failure, or the limit, is logged once and ends the recording at the
  // last whole message.
  void Add(const v1::TimelineEntry& entry);
  const std::string& path() const { return path_; }

 private:
  void End(const std::string& why);

  Fd file_;
  const std::string path_;
  const Bytes limit_;
  Bytes written_ = 0;
};

}  // namespace parkade::daemon
