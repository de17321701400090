// Reads meminfo and the memory controller's files.
#include "daemon/host_memory.h"

#include <algorithm>
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

struct Names {
  const char *limit, *used, *inactive, *active;
};
constexpr Names kV2{"memory.max", "memory.current", "inactive_file", "active_file"};
constexpr Names kV1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                    "total_active_file"};
// v1 writes "no limit" as the largest page-aligned number.
constexpr Bytes kNoLimit = Bytes(1) << 62;

std::optional<Bytes> HeadroomOf(const std::string& group, const Names& names) {
  const auto limit = ReadFileNumber(Cat(group, "/", names.limit));
  const auto used = ReadFileNumber(Cat(group, "/", names.used));
  if (!limit || *limit >= kNoLimit || !used) return std::nullopt;
  const auto stat = ReadTable(Cat(group, "/memory.stat"));
  const auto of = [&](const char* name) {
    const auto at = stat.find(name);
    return at == stat.end() ? 0 : at->second;
  };
  const Bytes cache = std::min(*used, of(names.inactive) + of(names.active));
  const Bytes held = *used - cache;
  return held >= *limit ? 0 : *limit - held;
}

// The least headroom from `path` up to the root of the hierarchy.
std::optional<Bytes> LeastUpwards(const std::string& root, std::string path, const Names& names) {
  std::optional<Bytes> least;
  for (;;) {
    if (const auto headroom = HeadroomOf(root + path, names)) {
      least = least ? std::min(*least, *headroom) : *headroom;
    }
    const size_t slash = path.rfind('/');
    if (path.empty() || path == "/" || slash == path.npos) return least;
    path.resize(slash);
  }
}

}  // namespace

HostMemory ReadHostMemory(const std::string& proc) {
  auto table = ReadTable(Cat(proc, "/meminfo"));
  return {table["MemTotal"] << 10, table["MemAvailable"] << 10};
}

std::optional<Bytes> CgroupHeadroom(int pid, const std::string& proc, const std::string& cgroup) {
  std::optional<Bytes> least;
  const std::string text = ReadProcFile(Cat(proc, "/", pid, "/cgroup"));
  // Lines "number:controllers:path"; the path may hold colons.
  for (std::string_view line : Split(text, "\n")) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    std::optional<Bytes> found;
    if (line.starts_with("0:") && controllers.empty()) {
      found = LeastUpwards(cgroup, path, kV2);
    } else if (controllers == "memory") {
      found = LeastUpwards(Cat(cgroup, "/memory"), path, kV1);
    }
    if (found) least = least ? std::min(*least, *found) : *found;
  }
  return least;
}

}  // namespace parkade::daemon
