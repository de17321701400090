// Knows the names and kinds of files that make a scratch directory.
#include "daemon/scratch_layout.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/text.h"
#include "daemon/printable.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

bool IsDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return isdigit(c); });
}

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return isxdigit(c); });
}

// "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx".
bool IsBootId(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !isxdigit(static_cast<unsigned char>(text[i]))) return false;
  }
  return true;
}

bool IsDataName(std::string_view name) {
  return name.starts_with("data.") && name.size() <= 8 && IsDigits(name.substr(5));
}

bool IsOurName(std::string_view name) {
  return name == wire::kScratchOwner || name == wire::kScratchLock || IsDataName(name);
}

// A link, fifo or directory under one of our names is somebody else's.
bool IsOurs(int dir, const std::string& name, uid_t uid, struct stat* s) {
  return IsOurName(name) && fstatat(dir, name.c_str(), s, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(s->st_mode) && s->st_uid == uid;
}

}  // namespace

absl::Status FileFailed(int os_errno, std::string_view what, const std::string& path) {
  return Annotate(ToStatus(OsError(os_errno, "%s", path.c_str())), Cat(what, " "),
                  {{"path", path}});
}

bool IsScratchName(std::string_view name) {
  const size_t dash = name.find('-');
  if (dash == name.npos || dash < 2 || dash > 11 || name[0] != 'p') return false;
  const auto hex = name.substr(dash + 1);
  return IsDigits(name.substr(1, dash - 1)) && hex.size() == 24 && IsHex(hex);
}

std::optional<wire::OwnerRecord> ReadOwner(std::span<const char> bytes) {
  wire::OwnerRecord record;
  if (bytes.size() < sizeof record) return std::nullopt;
  memcpy(&record, bytes.data(), sizeof record);
  // A boot id that is none would pass for that of an earlier boot, whose processes are all dead.
  if (record.magic != wire::kOwnerMagic || record.version != 1 || record.pid <= 0 ||
      !IsBootId(ReadText(record.boot_id))) {
    return std::nullopt;
  }
  return record;
}

Fd OpenDirectory(int at, const char* name) {
  return Fd(openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

std::vector<std::string> NamesIn(int dir) {
  std::vector<std::string> names;
  const int own = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // readdir moves the offset
  std::unique_ptr<DIR, int (*)(DIR*)> stream(own < 0 ? nullptr : fdopendir(own), closedir);
  if (stream == nullptr) {
    if (own >= 0) close(own);
    return names;
  }
  while (const dirent* entry = readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

absl::StatusOr<ScratchContents> LookInto(int root, const std::string& name) {
  ScratchContents found;
  found.dir = OpenDirectory(root, name.c_str());
  struct stat s;
  if (!found.dir || fstat(found.dir.get(), &s) != 0) {
    if (errno == ENOENT) return FileFailed(errno, "open", name);
    const bool no_directory = errno == ELOOP || errno == ENOTDIR;
    return Fail(absl::StatusCode::kPermissionDenied, "BAD_SCRATCH",
                no_directory ? "it is a link or a file, not a directory"
                             : Cat("it cannot be opened: ", strerror(errno)));
  }
  found.uid = s.st_uid;
  found.gid = s.st_gid;
  for (const std::string& entry : NamesIn(found.dir.get())) {
    if (!IsOurs(found.dir.get(), entry, found.uid, &s)) {
      found.stranger = Printable(entry);
      continue;
    }
    found.bytes += Bytes(s.st_blocks) * 512;
    found.has_data |= IsDataName(entry);
  }
  // O_NONBLOCK: a fifo planted in its place must not stop us.
  const Fd record(
      openat(found.dir.get(), wire::kScratchOwner, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  char bytes[sizeof(wire::OwnerRecord)];
  if (record && fstat(record.get(), &s) == 0 && S_ISREG(s.st_mode)) {
    const ssize_t n = pread(record.get(), bytes, sizeof bytes, 0);
    found.owner_complete = n == ssize_t(sizeof bytes);
    if (found.owner_complete) found.owner = ReadOwner(bytes);
  }
  return found;
}

absl::Status RemoveScratch(int root, int dir, const std::string& name, const std::string& path) {
  struct stat ours, named;
  if (fstat(dir, &ours) != 0) return FileFailed(errno, "look at", path);
  std::string stranger;
  for (const std::string& file : NamesIn(dir)) {
    struct stat s;
    if (!IsOurs(dir, file, ours.st_uid, &s)) {
      stranger = file;
    } else if (IsDataName(file) && unlinkat(dir, file.c_str(), 0) != 0 && errno != ENOENT) {
      return FileFailed(errno, "remove the data of", path);
    }
  }
  if (!stranger.empty()) {
    return Fail(absl::StatusCode::kFailedPrecondition, "NOT_EMPTY",
                Cat(path, " stays: ", Printable(stranger), " in it is no scratch"),
                {{"path", path}});
  }
  // The owner record last: with it a removal that stops in the middle can be finished later.
  for (const char* file : {wire::kScratchLock, wire::kScratchOwner}) {
    if (unlinkat(dir, file, 0) != 0 && errno != ENOENT) return FileFailed(errno, "empty", path);
  }
  if (fstatat(root, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return FileFailed(errno, "look at", path);
  }
  // Somebody has put another one in its place: that one is not ours to remove.
  if (named.st_dev != ours.st_dev || named.st_ino != ours.st_ino) return absl::OkStatus();
  if (unlinkat(root, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return FileFailed(errno, "remove", path);
  }
  return absl::OkStatus();
}

}  // namespace parkade::daemon
