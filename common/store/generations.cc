// Lists the generations of a checkpoint's base and removes old ones.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/store/checkpoint.h"
#include "common/store/checkpoint_files.h"

namespace parkade::store {
namespace {

using Listing = std::unique_ptr<DIR, decltype([](DIR* dir) { closedir(dir); })>;

Result<std::vector<std::string>> NamesIn(const std::string& path) {
  const Listing dir(opendir(path.c_str()));
  if (!dir) return OsError(errno, "%s", path.c_str());
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(dir.get())) {
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
      names.emplace_back(entry->d_name);
    }
    errno = 0;
  }
  if (errno != 0) return OsError(errno, "%s", path.c_str());
  return names;
}

// The step of a generation's name, or -1 for another file.
int64_t StepOf(const std::string& name) {
  unsigned long long step = 0;
  if (name.size() > 30 || sscanf(name.c_str(), "step-%llu", &step) != 1) return -1;
  return step < (1ull << 62) && StepDirectory(step) == name ? int64_t(step) : -1;
}

// Ours alone: a directory with another file in it stays, and is an error.
bool IsOurs(const std::string& name) {
  return name == kCompleteFile || name.starts_with("COMPLETE.") || name.starts_with("rank-");
}

}  // namespace

Result<std::vector<Generation>> ListGenerations(const std::string& base) {
  auto names = NamesIn(base);
  if (!names.ok()) return names.error();
  std::vector<Generation> generations;
  for (const std::string& name : *names) {
    const int64_t step = StepOf(name);
    struct stat st;
    const std::string path = base + "/" + name;
    if (step < 0 || lstat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) continue;
    const bool complete = access((path + "/" + kCompleteFile).c_str(), F_OK) == 0;
    generations.push_back({uint64_t(step), complete});
  }
  std::sort(generations.begin(), generations.end(),
            [](const Generation& a, const Generation& b) { return a.step < b.step; });
  return generations;
}

Result<void> RemoveGeneration(const std::string& base, uint64_t step) {
  const std::string path = base + "/" + StepDirectory(step);
  auto names = NamesIn(path);
  if (!names.ok()) return names.error();
  const std::string complete = path + "/" + kCompleteFile;
  if (unlink(complete.c_str()) != 0 && errno != ENOENT) {
    return OsError(errno, "%s: unlink", complete.c_str());
  }
  for (const std::string& name : *names) {
    if (!IsOurs(name) || name == kCompleteFile) continue;
    const std::string file = path + "/" + name;
    if (unlink(file.c_str()) != 0 && errno != ENOENT) {
      return OsError(errno, "%s: unlink", file.c_str());
    }
  }
  if (rmdir(path.c_str()) != 0) return OsError(errno, "%s: rmdir", path.c_str());
  return {};
}

Result<uint32_t> PruneGenerations(const std::string& base, uint32_t keep) {
  auto generations = ListGenerations(base);
  if (!generations.ok()) return generations.error();
  uint32_t complete = 0, removed = 0;
  for (size_t i = generations->size(); i-- > 0;) {
    const Generation& generation = (*generations)[i];
    if (generation.complete && complete < std::max(keep, 1u)) {
      ++complete;
      continue;
    }
    // Newer than every complete one: somebody may be writing it.
    if (complete == 0) continue;
    if (auto r = RemoveGeneration(base, generation.step); !r.ok()) return r.error();
    ++removed;
  }
  return removed;
}

}  // namespace parkade::store
