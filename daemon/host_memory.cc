// Reads meminfo, the memory controller's files, and limits.
#include "daemon/host_memory.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "daemon/proc_file.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// "name value [unit]" or "name: value [unit]" lines.
std::map<std::string, Bytes> ReadTable(const std::string& path) {
  std::map<std::string, Bytes> table;
  const std::string text = ReadProcFile(path);
  for (std::string_view line : Split(text, "\n")) {
    const auto words = Split(line, ": \t");
    const auto value = words.size() >= 2 ? ReadNumber<Bytes>(words[1]) : std::nullopt;
    if (value) table[std::string(words[0])] = *value;
  }
  return table;
}

std::optional<Bytes> ReadFileNumber(const std::string& path) {
  const std::string text = ReadProcFile(path);
  const auto words = Split(text, "\n");
  // "max" is no number: no limit.
  return words.empty() ? std::nullopt : ReadNumber<Bytes>(words[0]);
}

// One version's names of files and of counters in memory.stat.
struct Names {
  std::vector<const char*> limits;
  const char *used, *inactive, *active;
};
// Past memory.high a process is not killed but slowed down to a crawl, so it is a limit as well.
const Names kV2{{"memory.max", "memory.high"}, "memory.current", "inactive_file", "active_file"};
const Names kV1{
    {"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file", "total_active_file"};
// v1 writes "no limit" as the largest page-aligned number.
constexpr Bytes kNoLimit = Bytes(1) << 62;

std::optional<Bytes> HeadroomOf(const std::string& group, const Names& names) {
  Bytes limit = kNoLimit;
  for (const char* file : names.limits) {
    limit = std::min(limit, ReadFileNumber(Cat(group, "/", file)).value_or(kNoLimit));
  }
  const auto used = ReadFileNumber(Cat(group, "/", names.used));
  if (limit == kNoLimit || !used) return std::nullopt;
  const auto stat = ReadTable(Cat(group, "/memory.stat"));
  const auto of = [&](const char* name) {
    const auto at = stat.find(name);
    return at == stat.end() ? 0 : at->second;
  };
  const Bytes cache = std::min(*used, of(names.inactive) + of(names.active));
  const Bytes held = *used - cache;
  return held >= limit ? 0 : limit - held;
}

// Where a hierarchy with the memory controller is mounted: the group `root` shows as `point`.
struct Mount {
  const Names* names;
  std::string root, point;
};

std::vector<Mount> MemoryMounts(std::span<const MountInfo> all) {
  std::vector<Mount> mounts;
  for (const MountInfo& mount : all) {
    const auto options = Split(mount.options, ",");
    const bool v1 = mount.type == "cgroup" &&
                    std::find(options.begin(), options.end(), "memory") != options.end();
    if (!v1 && mount.type != "cgroup2") continue;
    // The root "/" is that of every path.
    mounts.push_back({v1 ? &kV1 : &kV2, mount.root == "/" ? "" : mount.root, mount.point});
  }
  return mounts;
}

// `path` and what is above it, as far as `mount` shows it.
void AddUpwards(const Mount& mount, std::string path, std::vector<MemoryGroup>& groups) {
  for (path.erase(0, mount.root.size());; path.resize(path.rfind('/'))) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    const std::string group = mount.point + path;
    if (const auto free = HeadroomOf(group, *mount.names)) groups.push_back({group, *free});
    if (path.empty()) return;
  }
}

bool IsBelow(std::string_view path, std::string_view root) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

bool MayLockAnything(int pid) {
  constexpr uint64_t kIpcLock = uint64_t(1) << 14;  // CAP_IPC_LOCK
  const std::string text = ReadProcFile(Cat("/proc/", pid, "/status"));
  for (std::string_view line : Split(text, "\n")) {
    constexpr std::string_view kField = "CapEff:\t";
    if (!line.starts_with(kField)) continue;
    uint64_t caps = 0;
    std::from_chars(line.data() + kField.size(), line.data() + line.size(), caps, 16);
    return (caps & kIpcLock) != 0;
  }
  return false;
}

}  // namespace

HostMemory ReadHostMemory(const std::string& proc) {
  auto table = ReadTable(Cat(proc, "/meminfo"));
  return {table["MemTotal"] << 10, table["MemAvailable"] << 10};
}

std::vector<MemoryGroup> MemoryGroupsOf(int pid, std::span<const MountInfo> all,
                                        const std::string& proc) {
  std::vector<MemoryGroup> groups;
  const auto mounts = MemoryMounts(all);
  const std::string text = ReadProcFile(Cat(proc, "/", pid, "/cgroup"));
  // Lines "number:controllers:path"; the path may hold colons.
  for (std::string_view line : Split(text, "\n")) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const auto controllers = Split(line.substr(first + 1, second - first - 1), ",");
    const std::string path(line.substr(second + 1));
    const bool v2 = line.starts_with("0:") && controllers.empty();
    const bool v1 =
        std::find(controllers.begin(), controllers.end(), "memory") != controllers.end();
    // "/..": outside of this process's cgroup namespace.
    if ((!v1 && !v2) || IsBelow(path, "/..")) continue;
    const auto mount = std::find_if(mounts.begin(), mounts.end(), [&](const Mount& m) {
      return m.names == (v1 ? &kV1 : &kV2) && IsBelow(path, m.root);
    });
    if (mount != mounts.end()) AddUpwards(*mount, path, groups);
  }
  return groups;
}

std::optional<Bytes> LockableBytes(int pid) {
  return MayLockAnything(pid) ? std::nullopt : ReadLimit(pid, "Max locked memory");
}

}  // namespace parkade::daemon
