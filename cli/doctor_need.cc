// Checks whether all that is in GPU memory now has a place to go.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cli/doctor_checks.h"
#include "cli/format.h"

namespace parkade::cli {
namespace {

struct Sums {
  uint64_t hbm = 0;   // of processes that run: what pausing all of them would move
  uint64_t host = 0;  // that could be had, and what they have pinned for it already
  uint64_t disk = 0;
};

Sums Add(const NodeAnswers& answers) {
  Sums sums;
  sums.host = answers.node.host_available_bytes();
  for (const v1::Process& process : answers.processes) {
    for (const auto& device : process.devices()) sums.hbm += device.resident_bytes();
    sums.host += process.host_pool_bytes() -
                 std::min(process.host_pool_bytes(), process.host_backup_bytes());
  }
  // A budget of the node is the first; it counts all that backups take.
  for (const v1::Budget& budget : answers.node.budgets()) {
    if (!budget.job().empty() || budget.host_bytes() == 0) continue;
    const uint64_t left =
        budget.host_bytes() - std::min(budget.host_bytes(), budget.host_used_bytes());
    sums.host = std::min(sums.host, left);
  }
  for (const auto& base : answers.node.scratch_bases()) {
    if (base.usable()) sums.disk += base.free_bytes();
  }
  return sums;
}

}  // namespace

Findings CheckNeed(const NodeAnswers& answers) {
  if (!answers.status.ok()) return {};
  const Sums sums = Add(answers);
  const std::string have = absl::StrCat(
      FormatBytes(sums.hbm), " are in GPU memory, for which there are ", FormatBytes(sums.host),
      " of host memory and ", FormatBytes(sums.disk), " of disk");
  if (sums.hbm == 0) {
    return {{Level::kOk, "room",
             absl::StrCat("nothing is in GPU memory; there are ", FormatBytes(sums.host),
                          " of host memory and ", FormatBytes(sums.disk), " of disk for it"),
             ""}};
  }
  if (sums.hbm <= sums.host) return {{Level::kOk, "room", have, ""}};
  if (sums.hbm <= sums.host + sums.disk) {
    return {{Level::kNote, "room", absl::StrCat(have, ": a pause of all needs the disk"),
             "parkade pause --all --policy auto"}};
  }
  return {{Level::kWarning, "room", absl::StrCat(have, ": a pause of all would be refused"),
           "[scratch] dirs = [\"/nvme/parkade\"]  # in /etc/parkade/parkaded.toml"}};
}

}  // namespace parkade::cli
