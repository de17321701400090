// Reads what the driver and /proc say, after the fact.
#include "daemon/explain.h"

#include <algorithm>
#include <iterator>

#include "daemon/host_memory.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {

absl::Status ExplainShortage(const absl::Status& failed, const GpuAccount::ByGpu& needed,
                             const Gpus& gpus) {
  Metadata metadata;
  const Metadata known = MetadataOf(failed);
  const auto named = known.find("gpu_uuid");
  std::string text;
  for (const GpuView& gpu : gpus.Read()) {
    const auto at = needed.find(gpu.uuid);
    if (at == needed.end()) continue;
    std::vector<std::string> holders, held;
    for (const auto& [pid, bytes] : gpu.users) {
      holders.push_back(Cat(pid, "=", bytes));
      held.push_back(Cat(pid, " (", InUnits(bytes), ")"));
    }
    text += Cat(gpu.uuid, " has ", InUnits(gpu.free), " free of ", InUnits(at->second),
                " needed, held by ", held.empty() ? "nobody known" : Join(held, ", "), "; ");
    metadata = {{"gpu_uuid", gpu.uuid},
                {"needed_bytes", std::to_string(at->second)},
                {"free_bytes", std::to_string(gpu.free)},
                {"holders", Join(holders, ",")}};
    // The one that is short is the one to tell of; the account may know it better than the driver.
    if (named != known.end() ? gpu.uuid == named->second : gpu.free < at->second) break;
  }
  return Annotate(failed, text, metadata);
}

absl::Status NoGpu(const std::string& uuid) {
  return Fail(absl::StatusCode::kNotFound, "NO_GPU", Cat("no GPU is called \"", uuid, "\""),
              {{"gpu_uuid", uuid}});
}

absl::Status NoFigures(const Gpus& gpus) {
  return Fail(absl::StatusCode::kFailedPrecondition, "NO_FIGURES",
              Cat("how much GPU memory is free is not known: ", gpus.source()));
}

absl::Status NameBackup(const absl::Status& failed, const std::vector<Member>& members) {
  constexpr std::string_view kOfDisk[] = {"BACKUP_MISSING", "BACKUP_CORRUPT",  "OS_ERROR",
                                          "DISK_SPACE",     "DISK_QUOTA",      "READ_ONLY",
                                          "NO_ACCESS",      "FILE_SIZE_LIMIT", "NO_FILE"};
  const std::string reason = ReasonOf(failed);
  if (std::find(std::begin(kOfDisk), std::end(kOfDisk), reason) == std::end(kOfDisk)) return failed;
  Metadata metadata = MetadataOf(failed);
  if (metadata.contains("path")) return failed;
  const auto pid = ReadNumber<int>(metadata["pid"]);
  for (const Member& member : members) {
    if (member.process->pid() != pid) continue;
    const auto scratch = member.scratch ? member.scratch : member.process->scratch();
    if (scratch == nullptr) break;
    return Annotate(failed, Cat("backup in ", scratch->path(), ": "), {{"path", scratch->path()}});
  }
  return failed;
}

absl::Status NameEnd(const absl::Status& failed, const std::vector<Member>& members) {
  if (ReasonOf(failed) != "SHIM_DISCONNECTED") return failed;
  const auto pid = ReadNumber<int>(MetadataOf(failed)["pid"]);
  for (const Member& member : members) {
    if (member.process->pid() != pid || !member.process->ended()) continue;
    return Fail(absl::StatusCode::kUnavailable, "PROCESS_ENDED",
                Cat("process ", *pid, " has ended"), MetadataOf(failed));
  }
  return failed;
}

absl::Status ExplainMemlock(const absl::Status& failed) {
  if (ReasonOf(failed) != "MEMLOCK") return failed;
  const auto pid = ReadNumber<int>(MetadataOf(failed)["pid"]);
  const auto lockable = pid ? LockableBytes(*pid) : std::nullopt;
  if (!lockable) return failed;
  return Annotate(failed, Cat("(its limit on locked memory is ", InUnits(*lockable), ") "),
                  {{"limit_bytes", std::to_string(*lockable)}});
}

}  // namespace parkade::daemon
