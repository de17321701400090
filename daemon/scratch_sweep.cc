// Walks bases by descriptor, never by a path that could change underneath.
#include "daemon/scratch_sweep.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "daemon/file_system.h"
#include "daemon/fs_user.h"
#include "daemon/scratch_layout.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// "parkade-v" and a number: where the directories of some version stand.
bool IsRootName(std::string_view name) {
  constexpr std::string_view kPrefix = "parkade-v";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         std::all_of(name.begin() + kPrefix.size(), name.end(),
                     [](unsigned char c) { return isdigit(c); });
}

struct Verdict {
  bool dead = false;
  std::string reason;
  Fd lock;  // held while it is removed
};

Verdict Stays(std::string reason) { return {false, std::move(reason), {}}; }

Verdict JudgeUnfinished(const ScratchContents& found, bool local) {
  if (found.has_data) return Stays("it has data but no owner record");
  if (found.owner_complete) return Stays("its owner record is not one that this version knows");
  // Whoever makes a directory holds a lock on it until its owner record is written.
  if (!local) return Stays("it has no owner record, and may be another machine's");
  struct stat s;
  if (flock(found.dir.get(), LOCK_EX | LOCK_NB) != 0 ||
      (fstatat(found.dir.get(), wire::kScratchOwner, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
       s.st_size >= off_t(sizeof(wire::OwnerRecord)))) {
    return Stays("it is being made");
  }
  return {true, "it was never finished", {}};
}

Verdict Judge(const ScratchContents& found, bool local, const Sweep& sweep) {
  if (!found.stranger.empty()) return Stays(Cat(found.stranger, " in it is no scratch"));
  if (!found.owner) return JudgeUnfinished(found, local);
  const wire::OwnerRecord& owner = *found.owner;
  if (owner.uid != found.uid) return Stays("it is another user's than its owner record says");
  switch (sweep.life(owner)) {
    case Life::kAlive:
      return Stays(Cat("process ", owner.pid, " is alive"));
    case Life::kUnknown:
      return Stays(
          Cat("process ", owner.pid, " is in a pid namespace that cannot be seen from here"));
    case Life::kDead:
      break;
  }
  const bool this_boot = ReadText(owner.boot_id) == BootId();
  if (!this_boot && !local) {
    return Stays("its owner may be on another machine that shares this file system");
  }
  const AsUser as_user({found.uid, found.gid, {}});
  Verdict verdict{true, this_boot ? Cat("process ", owner.pid, " has ended") : "of an earlier boot",
                  Fd(openat(found.dir.get(), wire::kScratchLock,
                            O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC))};
  // Without a lock file an earlier removal stopped in the middle: the owner record goes last.
  if (!verdict.lock) {
    return errno == ENOENT ? std::move(verdict)
                           : Stays(Cat("its lock cannot be opened: ", strerror(errno)));
  }
  if (flock(verdict.lock.get(), LOCK_EX | LOCK_NB) == 0) return verdict;
  return Stays("a process holds its lock, though not its owner");
}

// As the user, since on a network file system root may be nobody; else as ourselves, since the
// user's groups, by which he may write to the base, are not known any more.
absl::Status Remove(int root, const ScratchContents& found, const std::string& name,
                    const std::string& path) {
  absl::Status removed;
  {
    const AsUser as_user({found.uid, found.gid, {}});
    removed = RemoveScratch(root, found.dir.get(), name, path);
  }
  if (removed.code() != absl::StatusCode::kPermissionDenied) return removed;
  return RemoveScratch(root, found.dir.get(), name, path);
}

absl::StatusOr<ScratchContents> LookAsOwner(int root, const std::string& name,
                                            const struct stat& s) {
  const AsUser as_user({s.st_uid, s.st_gid, {}});
  return LookInto(root, name);
}

// Fills in what becomes of the directory. False: it has gone meanwhile.
bool SweepOne(int root, const std::string& name, const struct stat& s, bool local,
              const Sweep& sweep, SweptDirectory& entry) {
  const auto found = LookAsOwner(root, name, s);
  if (!found.ok()) {
    entry.reason = MessageOf(found.status());
    return found.status().code() != absl::StatusCode::kNotFound;
  }
  entry.uid = found->uid;
  entry.bytes = found->bytes;
  if (found->owner) entry.pid = found->owner->pid;
  const Verdict verdict = Judge(*found, local, sweep);
  entry.dead = verdict.dead;
  entry.reason = verdict.reason;
  if (!verdict.dead || sweep.mode == Sweep::Mode::kLook) return true;
  if (const auto removed = Remove(root, *found, name, entry.path); !removed.ok()) {
    entry.dead = false;
    entry.reason = Cat(verdict.reason, ", but: ", MessageOf(removed));
    Log(LogLevel::kWarning, "%s", MessageOf(removed).c_str());
    return true;
  }
  Log(LogLevel::kInfo, "removed %s: %s", entry.path.c_str(), verdict.reason.c_str());
  return true;
}

void SweepRoot(int root, const std::string& root_path, const Sweep& sweep,
               std::vector<SweptDirectory>& swept) {
  const bool local = IsLocal(root);
  for (const std::string& name : NamesIn(root)) {
    struct stat s;
    if (!IsScratchName(name) || fstatat(root, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0 ||
        (sweep.concerns && !sweep.concerns(s.st_uid))) {
      continue;
    }
    SweptDirectory entry;
    entry.path = Cat(root_path, "/", name);
    entry.uid = s.st_uid;
    if (SweepOne(root, name, s, local, sweep, entry)) swept.push_back(std::move(entry));
  }
}

}  // namespace

std::vector<SweptDirectory> SweepBases(const ScratchRules& rules,
                                       const std::vector<std::string>& bases, const Sweep& sweep) {
  std::vector<SweptDirectory> swept;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const std::string& base : bases) {
    const auto at = OpenForSweep(rules, base);
    if (!at.ok()) {
      // One that is not there has nothing in it.
      if (at.status().code() == absl::StatusCode::kNotFound) continue;
      Log(LogLevel::kWarning, "not swept: %s", MessageOf(at.status()).c_str());
      if (!sweep.concerns || sweep.concerns(0)) {
        swept.push_back({base, 0, 0, 0, false, Cat("not swept: ", MessageOf(at.status()))});
      }
      continue;
    }
    for (const std::string& name : NamesIn(at->get())) {
      if (!IsRootName(name)) continue;
      const Fd root = OpenDirectory(at->get(), name.c_str());
      struct stat s;
      if (!root || fstat(root.get(), &s) != 0 || !seen.emplace(s.st_dev, s.st_ino).second) continue;
      const std::string path = Cat(base, "/", name);
      if (name == wire::kScratchRoot) {
        SweepRoot(root.get(), path, sweep, swept);
      } else if (!sweep.concerns || sweep.concerns(s.st_uid)) {
        swept.push_back(
            {path, 0, s.st_uid, 0, false, "of a layout that this version does not know"});
      }
    }
  }
  return swept;
}

std::vector<std::string> BasesToSweep(const std::vector<std::string>& configured,
                                      const std::vector<std::string>& remembered) {
  std::set<std::string> bases(configured.begin(), configured.end());
  bases.insert("/scratch");
  for (const std::string& parent : std::vector<std::string>(bases.begin(), bases.end())) {
    const Fd dir(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir) continue;
    for (const std::string& name : NamesIn(dir.get())) {
      if (name.starts_with("parkade_")) bases.insert(Cat(parent, "/", name));
    }
  }
  bases.insert(remembered.begin(), remembered.end());
  return {bases.begin(), bases.end()};
}

}  // namespace parkade::daemon
