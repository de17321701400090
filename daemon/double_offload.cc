// Reads the ledger's figures and the names of mapped files.
#include "daemon/double_offload.h"

#include <algorithm>
#include <array>

#include "common/bytes.h"
#include "common/text.h"
#include "daemon/process.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

constexpr Bytes kNotable = 1_GiB;
constexpr Bytes kShare = 4;

struct Offloader {
  std::string_view file;  // is in its name
  const char* what;
};
constexpr std::array<Offloader, 3> kOffloaders{{
    {"torch_memory_saver", "torch_memory_saver"},
    {"cpu_adam", "DeepSpeed's optimizer on the CPU"},
    {"kvcached", "kvcached"},
}};

// Of our own library, which has other names too.
constexpr std::string_view kOwn = "parkade";

bool IsMapped(std::string_view file, std::string_view maps) {
  for (size_t at = maps.find(file); at != std::string_view::npos; at = maps.find(file, at + 1)) {
    const size_t line = maps.rfind('\n', at) + 1;  // 0 for the first
    const std::string_view path = maps.substr(line, maps.find('\n', at) - line);
    const std::string_view name = path.substr(path.rfind('/') + 1);
    const bool is_name = name.find(file) != std::string_view::npos;
    if (is_name && name.find(kOwn) == std::string_view::npos) return true;
  }
  return false;
}

// What Parkade moves or has moved for the process.
Bytes Managed(const wire::LedgerHeader& ledger) {
  Bytes sum = std::min(ledger.host_backup_bytes, kMostClaimed) +
              std::min(ledger.disk_backup_bytes, kMostClaimed);
  for (const wire::LedgerDevice& device : ledger.devices) {
    if (device.used != 0) sum += std::min(device.resident_bytes, kMostClaimed);
  }
  return sum;
}

}  // namespace

std::vector<std::string> DoubleOffload(const wire::LedgerHeader& ledger, std::string_view maps) {
  std::vector<std::string> signs;
  const Bytes managed = Managed(ledger);
  if (ledger.pinned_bytes >= kNotable && ledger.pinned_bytes >= managed / kShare) {
    signs.push_back(Cat("the program has pinned ", InUnits(ledger.pinned_bytes),
                        " of host memory itself, beside ", InUnits(managed),
                        " that Parkade moves: what it offloads is moved twice"));
  }
  for (const Offloader& offloader : kOffloaders) {
    if (!IsMapped(offloader.file, maps)) continue;
    signs.push_back(Cat(offloader.what, " is loaded: what it offloads is moved twice"));
  }
  return signs;
}

}  // namespace parkade::daemon
