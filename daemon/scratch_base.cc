// Walks to a base one component at a time and looks at what it finds.
#include "daemon/scratch_base.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/trusted_path.h"
#include "daemon/file_system.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// Commit carries the path of a directory in the base in 256 bytes, NUL included:
// "/parkade-v1/p" + 10 digits + "-" + 24 hex digits stand behind the base.
constexpr size_t kMaxBasePath = 200;
constexpr char kLastResort[] = "/scratch";

absl::Status BadScratch(std::string_view path, std::string_view why) {
  return Fail(absl::StatusCode::kInvalidArgument, "BAD_SCRATCH",
              Cat("scratch base ", path, " ", why), {{"path", std::string(path)}});
}

// `path` is `dir` itself or beneath it.
bool IsWithin(std::string_view path, std::string_view dir) {
  while (dir.size() > 1 && dir.back() == '/') dir.remove_suffix(1);
  if (!path.starts_with(dir)) return false;
  return path.size() == dir.size() || dir == "/" || path[dir.size()] == '/';
}

std::string OwnLeaf(uid_t uid) { return Cat("parkade_", uid); }

// The configured directory that allows `path`; empty: none.
std::string AllowedBy(const ScratchRules& rules, std::string_view path) {
  std::string best;
  const auto consider = [&](const std::string& dir) {
    if (IsWithin(path, dir) && dir.size() > best.size()) best = dir;
  };
  for (const std::string& dir : rules.dirs) consider(dir);
  if (rules.dirs.empty()) consider(kLastResort);
  return best;
}

absl::Status OpenFailed(int os_errno, std::string_view path) {
  const Metadata metadata{{"path", std::string(path)}};
  switch (os_errno) {
    case ENOENT:
      return Fail(absl::StatusCode::kNotFound, "NO_FILE",
                  Cat("scratch base ", path, " does not exist"), metadata);
    case ENOTDIR:
      return BadScratch(path, "is not a directory");
    case EACCES:
    case EPERM:
      return Fail(absl::StatusCode::kPermissionDenied, "NO_ACCESS",
                  Cat("scratch base ", path, " is not writable by the process's user"), metadata);
    case EROFS:
      return Fail(absl::StatusCode::kFailedPrecondition, "READ_ONLY",
                  Cat("scratch base ", path, " is on a read-only file system"), metadata);
    default:
      return Annotate(ToStatus(OsError(os_errno, "open")), Cat("scratch base ", path, ": "),
                      metadata);
  }
}

// A part of a base below the directory that allows it: the user's, the daemon's, or of whom the
// administrator has put in charge there.
absl::Status CheckPart(const struct stat& s, std::string_view path, uid_t user, uid_t in_charge) {
  if (S_ISLNK(s.st_mode)) return BadScratch(path, "leads through a symbolic link");
  if (!S_ISDIR(s.st_mode)) return BadScratch(path, "is not a directory");
  if (s.st_uid != 0 && s.st_uid != geteuid() && s.st_uid != user && s.st_uid != in_charge) {
    return BadScratch(path, Cat("leads through a directory of user ", s.st_uid));
  }
  if ((s.st_mode & S_IWOTH) != 0 && (s.st_mode & S_ISVTX) == 0) {
    return BadScratch(path, "can be changed by every user: chmod o-w or +t");
  }
  return absl::OkStatus();
}

// Opens `path` beneath `dir`, as the calling thread's file system user. Components below `dir` and
// the last one must not be symlinks; those of `dir` itself only where they are the administrator's.
absl::StatusOr<Fd> Walk(std::string_view path, std::string_view dir, uid_t user,
                        std::string_view make_leaf) {
  auto start = OpenTrusted(path == dir ? std::string(dir) : Cat(dir, "/"), PathOwners::kAnyone);
  if (!start.ok()) {
    const Error& error = start.error();
    if (error.os_errno != 0) return OpenFailed(error.os_errno, path);
    return BadScratch(path, Cat("cannot be used: ", error.what));
  }
  Fd at = std::move(*start);
  struct stat s;
  if (fstat(at.get(), &s) != 0) return OpenFailed(errno, path);
  const uid_t in_charge = s.st_uid;
  const auto rest = Split(path.substr(dir.size()), "/");
  for (const std::string_view& part : rest) {
    const std::string name(part);
    int next = openat(at.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0 && errno == ENOENT && &part == &rest.back() && name == make_leaf) {
      if (mkdirat(at.get(), name.c_str(), 0700) != 0 && errno != EEXIST) {
        return OpenFailed(errno, path);
      }
      next = openat(at.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    }
    if (next < 0) return OpenFailed(errno, path);
    at.Reset(next);
    if (fstat(at.get(), &s) != 0) return OpenFailed(errno, path);
    if (auto part_ok = CheckPart(s, path, user, in_charge); !part_ok.ok()) return part_ok;
  }
  Fd base(openat(at.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!base) return OpenFailed(errno, path);
  return base;
}

absl::Status CheckFileSystem(const ScratchRules& rules, std::string_view path, int base) {
  const auto in_memory = IsInMemory(base);
  if (!in_memory.ok()) return OpenFailed(in_memory.error().os_errno, path);
  const auto& allowed = rules.allow_tmpfs;
  if (*in_memory && std::none_of(allowed.begin(), allowed.end(),
                                 [&](const std::string& dir) { return IsWithin(path, dir); })) {
    return BadScratch(path,
                      "is on tmpfs, which is host memory: name a disk, or allow it by "
                      "scratch.allow_tmpfs of parkaded");
  }
  if (faccessat(base, ".", W_OK | X_OK, AT_EACCESS) != 0) return OpenFailed(errno, path);
  return absl::OkStatus();
}

}  // namespace

BaseChoice ChooseBase(const ScratchRules& rules, std::string_view requested,
                      const WantedBase& wanted, uid_t uid) {
  using Source = BaseChoice::Source;
  const auto clean = [](std::string_view path) {
    while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
    return std::string(path);
  };
  if (!requested.empty()) return {clean(requested), Source::kRequest};
  if (!wanted.path.empty() && (!wanted.yields || rules.dirs.empty())) {
    return {clean(wanted.path), Source::kProcess};
  }
  if (!rules.stripe.empty()) {
    BaseChoice choice{clean(rules.stripe[0]), Source::kConfig};
    for (size_t i = 1; i < rules.stripe.size(); ++i)
      choice.stripes.push_back(clean(rules.stripe[i]));
    return choice;
  }
  if (!rules.dirs.empty()) return {clean(rules.dirs[0]), Source::kConfig};
  return {Cat(kLastResort, "/", OwnLeaf(uid)), Source::kLastResort};
}

bool IsAllowedBase(const ScratchRules& rules, std::string_view path) {
  return !AllowedBy(rules, path).empty();
}

absl::Status CheckBasePath(std::string_view path) {
  if (path.empty() || path[0] != '/') return BadScratch(path, "is not an absolute path");
  if (path.size() > kMaxBasePath) return BadScratch(path, "is longer than 200 bytes");
  if (path.find('\0') != path.npos) return BadScratch(path, "holds a NUL");
  for (std::string_view name : Split(path, "/")) {
    if (name == "." || name == "..") return BadScratch(path, "has a \".\" or \"..\" in it");
  }
  if (IsWithin(path, "/tmp")) return BadScratch(path, "is in /tmp, which others clean up");
  return absl::OkStatus();
}

absl::StatusOr<Fd> OpenBase(const ScratchRules& rules, const BaseChoice& choice,
                            const FsUser& user) {
  const std::string& path = choice.path;
  if (auto s = CheckBasePath(path); !s.ok()) return s;
  std::string dir = AllowedBy(rules, path);
  if (dir.empty() && choice.source == BaseChoice::Source::kLastResort) dir = kLastResort;
  if (dir.empty()) {
    return BadScratch(path, "is not allowed: add it to scratch.dirs of parkaded");
  }
  absl::Status failed;
  {
    const AsUser as_user(user);
    absl::StatusOr<Fd> base = Walk(path, dir, user.uid, OwnLeaf(user.uid));
    failed = base.ok() ? CheckFileSystem(rules, path, base->get()) : base.status();
    if (failed.ok()) return base;
  }
  if (choice.source != BaseChoice::Source::kLastResort) return failed;
  return Fail(absl::StatusCode::kInvalidArgument, "NO_SCRATCH",
              Cat("no directory to pause to: set PARKADE_SCRATCH_DIR for the process, name "
                  "one in the request, or set scratch.dirs of parkaded (",
                  MessageOf(failed), ")"),
              {{"path", path}});
}

absl::StatusOr<Fd> OpenForSweep(const ScratchRules& rules, const std::string& path) {
  if (auto s = CheckBasePath(path); !s.ok()) return s;
  const std::string dir = AllowedBy(rules, path);
  // Whose it is decides who may own the parts of the way to it, as when it was made.
  struct stat s;
  if (lstat(path.c_str(), &s) != 0) return OpenFailed(errno, path);
  // One that is not allowed any more is a path of its process's making, all of it.
  return Walk(path, dir.empty() ? "/" : dir, s.st_uid, "");
}

std::vector<BaseReport> ReportBases(const ScratchRules& rules) {
  std::vector<BaseReport> reports;
  for (const std::string& dir : rules.dirs) {
    BaseReport report{dir, absl::OkStatus()};
    report.stripe = std::find(rules.stripe.begin(), rules.stripe.end(), dir) != rules.stripe.end();
    const FsUser self{geteuid(), getegid(), {}};
    auto base = OpenBase(rules, {dir, BaseChoice::Source::kConfig}, self);
    report.usable = base.status();
    struct statfs fs;
    if (base.ok() && fstatfs(base->get(), &fs) == 0) {
      report.free_bytes = Bytes(fs.f_bavail) * Bytes(fs.f_bsize);
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace parkade::daemon
