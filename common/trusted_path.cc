// Walks a path one part at a time and looks at what it finds.
#include "common/trusted_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <deque>
#include <string_view>

namespace parkade {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel
constexpr int kFlags = O_PATH | O_NOFOLLOW | O_CLOEXEC;

Error Unsafe(const std::string& part, const char* why) {
  return MakeError(Code::kFailedPrecondition, "UNSAFE_DIRECTORY", "%s %s", part.c_str(), why);
}

// Puts the parts of `path` before what is left to walk.
void Prepend(std::deque<std::string>& rest, std::string_view path) {
  std::deque<std::string> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/') == path.npos ? path.size() : path.find('/');
    if (slash > 0 && path.substr(0, slash) != ".") parts.emplace_back(path.substr(0, slash));
    path.remove_prefix(slash < path.size() ? slash + 1 : slash);
  }
  rest.insert(rest.begin(), parts.begin(), parts.end());
}

Result<void> CheckOwner(const struct stat& s, const std::string& part) {
  if (s.st_uid == 0 || s.st_uid == geteuid()) return {};
  return MakeError(Code::kFailedPrecondition, "UNSAFE_DIRECTORY",
                   "%s belongs to user %u, who could change it", part.c_str(), s.st_uid);
}

Result<void> CheckDirectory(const struct stat& s, const std::string& part, PathOwners owners) {
  if (!S_ISDIR(s.st_mode)) return Unsafe(part, "is not a directory");
  const bool sticky = (s.st_mode & S_ISVTX) != 0;
  if ((s.st_mode & S_IWOTH) != 0 && !sticky) {
    return Unsafe(part, "can be changed by every user: chmod o-w or +t");
  }
  if (owners == PathOwners::kAnyone) return {};
  if (auto r = CheckOwner(s, part); !r.ok()) return r;
  // A user's own group has him alone in it where distributions give each user one.
  const bool own_group = s.st_gid == 0 || s.st_gid == getegid();
  if ((s.st_mode & S_IWGRP) != 0 && !sticky && !own_group) {
    return Unsafe(part, "can be changed by its group: chmod g-w");
  }
  return {};
}

// `make` < 0: nothing is made.
Result<Fd> Walk(const std::string& path, PathOwners owners, int make) {
  if (path.empty() || path[0] != '/') return Unsafe(path, "is not an absolute path");
  Fd at(open("/", kFlags));
  if (!at) return OsError(errno, "open /");
  std::deque<std::string> rest;
  Prepend(rest, path);
  const bool follow_last = path.back() == '/';
  std::string shown;  // what has been walked, without links' targets that were left again
  for (int links = 0; !rest.empty();) {
    const std::string name = std::move(rest.front());
    rest.pop_front();
    const std::string part = shown + "/" + name;
    if (make >= 0 && mkdirat(at.get(), name.c_str(), rest.empty() ? mode_t(make) : 0755) != 0 &&
        errno != EEXIST) {
      // A file system that is not to be written to may hold the directory already.
      if (errno != EROFS && errno != EACCES) return OsError(errno, "make %s", part.c_str());
    }
    Fd next(openat(at.get(), name.c_str(), kFlags));
    struct stat s;
    if (!next || fstat(next.get(), &s) != 0) return OsError(errno, "open %s", part.c_str());
    if (!S_ISLNK(s.st_mode)) {
      if (auto r = CheckDirectory(s, part, owners); !r.ok()) return r.error();
      at = std::move(next);
      shown = part;
      continue;
    }
    if (auto r = CheckOwner(s, part); !r.ok()) return r.error();
    if ((rest.empty() && !follow_last) || ++links > kMaxLinks)
      return Unsafe(part, "is a symbolic link");
    char target[PATH_MAX];
    const ssize_t n = readlinkat(next.get(), "", target, sizeof target);
    if (n < 0) return OsError(errno, "read the link %s", part.c_str());
    Prepend(rest, {target, size_t(n)});
    if (n > 0 && target[0] == '/') {
      at.Reset(open("/", kFlags));
      shown.clear();
    }
  }
  return at;
}

}  // namespace

Result<Fd> OpenTrusted(const std::string& path, PathOwners owners) {
  return Walk(path, owners, -1);
}

Result<Fd> MakeTrusted(const std::string& path, PathOwners owners, mode_t mode) {
  return Walk(path, owners, int(mode));
}

}  // namespace parkade
