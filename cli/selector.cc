// Turns selector options into the API's Selector.
#include "cli/selector.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/error.h"
#include "cli/read.h"
#include "proto/wire.h"

namespace parkade::cli {
namespace {

constexpr char kWhich[] = "Which processes (all that are given must match)";

bool IsNarrow(const SelectorOptions& o) {
  return !o.pids.empty() || !o.job.empty() || !o.role.empty() || !o.cell.empty() ||
         !o.ranks.empty() || !o.gpus.empty() || !o.group.empty();
}

}  // namespace

absl::StatusOr<std::string> GpuUuid(const std::string& gpu, Client& client) {
  size_t index = 0;
  if (!absl::SimpleAtoi(gpu, &index)) return gpu;
  const auto node = client.GetNode();
  if (!node.ok()) return node.status();
  if (index < size_t(node->gpus_size())) return node->gpus(int(index)).uuid();
  return MakeStatus(absl::StatusCode::kNotFound,
                    absl::StrCat("no GPU ", index, ": the daemon sees ", node->gpus_size()),
                    "NO_GPU");
}

bool SelectorOptions::empty() const { return !all && !IsNarrow(*this); }

std::string SelectorOptions::Words() const {
  std::string words;
  auto add = [&words](const auto&... parts) {
    absl::StrAppend(&words, words.empty() ? "" : " ", parts...);
  };
  for (const int32_t pid : pids) add(pid);
  if (!job.empty()) add("--job ", job);
  if (!role.empty()) add("--role ", role);
  if (!cell.empty()) add("--cell ", cell);
  for (const int32_t rank : ranks) add("--rank ", rank);
  for (const std::string& gpu : gpus) add("--gpu ", gpu);
  if (!group.empty()) add("--group ", group);
  if (all) add("--all");
  return words;
}

void AddLabelSelector(CLI::App& verb, SelectorOptions& options) {
  verb.add_option("--job", options.job, "Of this job")
      ->check(IsLabel(sizeof(wire::Hello::job) - 1))
      ->type_name("JOB")
      ->group(kWhich);
  verb.add_option("--role", options.role, "Of this role, such as actor or rollout")
      ->check(IsLabel(sizeof(wire::Hello::role) - 1))
      ->type_name("ROLE")
      ->group(kWhich);
  verb.add_option("--cell", options.cell, "Of this cell")
      ->check(IsLabel(sizeof(wire::Hello::cell) - 1))
      ->type_name("CELL")
      ->group(kWhich);
  // One value each time, so that the PIDs that may follow are not taken for ranks.
  verb.add_option("--rank", options.ranks, "Of this global rank; again or 0,1,2 for more")
      ->check(IsRank())
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N")
      ->group(kWhich);
  verb.add_option("--gpu", options.gpus, "On this GPU, by index or UUID; again for more")
      ->check(IsLabel(64))
      ->allow_extra_args(false)
      ->type_name("GPU")
      ->group(kWhich);
}

void AddSelector(CLI::App& verb, SelectorOptions& options) {
  verb.add_option("PID", options.pids, "Process IDs")->check(IsPid())->type_name("");
  AddLabelSelector(verb, options);
  verb.add_option("--group", options.group, "Of this group, which `parkade group` lists")
      ->check(IsLabel(63))
      ->type_name("NAME")
      ->group(kWhich);
  verb.add_flag("--all", options.all, "Every process that you may see")->group(kWhich);
}

absl::StatusOr<v1::Selector> MakeSelector(const SelectorOptions& options, Client& client) {
  if (options.all && IsNarrow(options)) {
    return UsageError("--all selects every process: leave it out, or leave out the others");
  }
  v1::Selector selector;
  for (const int32_t pid : options.pids) {
    const auto& seen = selector.pids();
    if (std::find(seen.begin(), seen.end(), pid) == seen.end()) selector.add_pids(pid);
  }
  selector.set_job(options.job);
  selector.set_role(options.role);
  selector.set_cell(options.cell);
  for (const int32_t rank : options.ranks) selector.add_ranks(rank);
  for (const std::string& gpu : options.gpus) {
    auto uuid = GpuUuid(gpu, client);
    if (!uuid.ok()) return uuid.status();
    selector.add_gpu_uuids(*uuid);
  }
  selector.set_all(options.all);
  selector.set_group(options.group);
  return selector;
}

absl::Status CheckSelects(const SelectorOptions& options) {
  if (!options.empty()) return absl::OkStatus();
  return UsageError(
      "no process is selected: give PIDs, --job, --role, --cell, --rank, --gpu, --group or --all");
}

}  // namespace parkade::cli
