// Frames, checks and replaces.
#include "daemon/journal_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

struct Frame {
  uint32_t magic;
  uint32_t bytes;     // of the record behind it
  uint64_t checksum;  // of length and record
};
static_assert(sizeof(Frame) == 16);
constexpr uint32_t kMagic = 0x4a4b'4150;  // "PAKJ"

// FNV-1a: it has to tell a torn write from a whole one, not friend from foe.
uint64_t Checksum(std::string_view record) {
  uint64_t hash = 0xcbf2'9ce4'8422'2325 ^ record.size();
  for (const char c : record) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x0000'0100'0000'01b3;
  }
  return hash;
}

std::string Framed(std::string_view record) {
  const Frame frame{kMagic, uint32_t(record.size()), Checksum(record)};
  std::string bytes(reinterpret_cast<const char*>(&frame), sizeof frame);
  bytes += record;
  return bytes;
}

// errno of the failure, ENOSPC for a write that fell short; 0: all is written.
int WriteAll(int fd, std::string_view bytes) {
  ssize_t n;
  do n = write(fd, bytes.data(), bytes.size());
  while (n < 0 && errno == EINTR);
  if (n < 0) return errno;
  return size_t(n) == bytes.size() ? 0 : ENOSPC;
}

// A journal is written anew long before it has so many bytes; what is beyond them is none of ours.
constexpr size_t kMostBytes = 64 << 20;

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path) {
  std::string bytes;
  char part[64 << 10];
  while (bytes.size() < kMostBytes) {
    const ssize_t n = read(fd, part, sizeof part);
    if (n == 0) return bytes;
    if (n > 0) {
      bytes.append(part, size_t(n));
    } else if (errno != EINTR) {
      return ToStatus(OsError(errno, "read %s", path.c_str()));
    }
  }
  return bytes;
}

}  // namespace

absl::StatusOr<JournalFile::Content> JournalFile::Read(const std::string& path) {
  // Not blocking on a pipe, not following a link: what stands there need not be ours.
  const Fd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd && errno == ENOENT) return Content{};
  struct stat s;
  if (!fd || fstat(fd.get(), &s) != 0) return ToStatus(OsError(errno, "open %s", path.c_str()));
  if (!S_ISREG(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & 0022) != 0) {
    return Fail(absl::StatusCode::kFailedPrecondition, "UNSAFE_FILE",
                Cat(path, " is not a file that this user alone can write to"));
  }
  const auto bytes = ReadAll(fd.get(), path);
  if (!bytes.ok()) return bytes.status();
  Content content;
  std::string_view left = *bytes;
  for (Frame frame; left.size() >= sizeof frame;) {
    memcpy(&frame, left.data(), sizeof frame);
    const std::string_view record = left.substr(sizeof frame).substr(0, frame.bytes);
    if (frame.magic != kMagic || frame.bytes > kLongest || record.size() != frame.bytes ||
        frame.checksum != Checksum(record)) {
      break;
    }
    content.records.emplace_back(record);
    left.remove_prefix(sizeof frame + record.size());
  }
  content.lost_bytes = left.size();
  return content;
}

absl::StatusOr<JournalFile> JournalFile::Replace(const std::string& path,
                                                 const std::vector<std::string>& records) {
  std::string bytes;
  for (const std::string& record : records) bytes += Framed(record);
  const std::string fresh = path + ".new";
  unlink(fresh.c_str());  // of a daemon that died here
  Fd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return ToStatus(OsError(errno, "make %s", fresh.c_str()));
  int error = WriteAll(fd.get(), bytes);
  if (error == 0 && rename(fresh.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(fresh.c_str());
    return ToStatus(OsError(error, "write %s", path.c_str()));
  }
  return JournalFile(std::move(fd), bytes.size());
}

absl::Status JournalFile::Append(std::string_view record) {
  if (record.size() > kLongest) {
    return Fail(absl::StatusCode::kInvalidArgument, "TOO_LONG",
                Cat("a record of ", record.size(), " bytes is too long for the journal"));
  }
  const std::string bytes = Framed(record);
  const int error = WriteAll(fd_.get(), bytes);
  if (error != 0) return ToStatus(OsError(error, "write the journal"));
  bytes_ += bytes.size();
  return absl::OkStatus();
}

void JournalFile::Empty() {
  if (ftruncate(fd_.get(), 0) == 0) bytes_ = 0;
}

}  // namespace parkade::daemon
