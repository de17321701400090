// Writes messages, each after its length.
#include "daemon/timeline_recording.h"

#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "common/log.h"
#include "daemon/runtime_dir.h"
#include "daemon/status.h"
#include "daemon/wall_clock.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

std::string FileName(const std::string& directory) {
  const auto now = time_t(WallClockNs() / 1'000'000'000);
  tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
  return Cat(directory, "/parkade-", text, "-", getpid(), ".timeline");
}

}  // namespace

absl::StatusOr<std::unique_ptr<TimelineRecording>> TimelineRecording::Begin(
    const std::string& directory, Bytes limit) {
  if (auto s = MakeDirectory(directory, 0700); !s.ok()) return s;
  const std::string path = FileName(directory);
  Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
  if (!file) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_CONFIG",
                Cat("timeline.dir: cannot make ", path, ": ", strerror(errno)));
  }
  auto recording = std::make_unique<TimelineRecording>(std::move(file), path, limit);
  v1::TimelineEntry entry;
  auto* start = entry.mutable_start();
  start->set_format(1);
  char host[65] = "";
  gethostname(host, sizeof host - 1);
  start->set_node(host);
  start->set_daemon_version(PARKADE_VERSION);
  start->mutable_time()->set_seconds(int64_t(WallClockNs() / 1'000'000'000));
  *start->mutable_begin() = start->time();
  recording->Add(entry);
  return recording;
}

void TimelineRecording::Add(const v1::TimelineEntry& entry) {
  if (!file_) return;
  std::string message;
  {
    google::protobuf::io::StringOutputStream stream(&message);
    google::protobuf::util::SerializeDelimitedToZeroCopyStream(entry, &stream);
  }
  if (written_ + message.size() > limit_) return End("it has reached timeline.limit");
  const ssize_t n = write(file_.get(), message.data(), message.size());
  if (n == ssize_t(message.size())) {
    written_ += message.size();
    return;
  }
  const std::string why = n < 0 ? strerror(errno) : "the disk is full";
  // Half a message would hide what somebody appends.
  if (n > 0) (void)!ftruncate(file_.get(), off_t(written_));
  End(why);
}

void TimelineRecording::End(const std::string& why) {
  Log(LogLevel::kWarning, "the recording %s ends here: %s", path_.c_str(), why.c_str());
  file_ = Fd();
}

}  // namespace parkade::daemon
