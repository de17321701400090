// Remembers who was turned away, and looks at the others in /proc.
#include "daemon/unmanaged.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/proc_file.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// A line has some 100 bytes, and a process 65,530 mappings unless its administrator allows more.
constexpr size_t kMostMaps = 16 << 20;

// Empty when that cannot be read.
std::optional<bool> HasShim(pid_t pid) {
  const std::string maps = ReadProcFile(Cat("/proc/", pid, "/maps"), kMostMaps);
  if (maps.empty()) return std::nullopt;
  return maps.find("/libparkade.so") != maps.npos;
}

std::optional<uid_t> UserOf(pid_t pid) {
  struct stat s;
  if (stat(Cat("/proc/", pid).c_str(), &s) != 0) return std::nullopt;
  return s.st_uid;
}

}  // namespace

void Unmanaged::TurnedAway(const Peer& peer, uint32_t version, std::string shim_version) {
  const auto ticks = StartTicks(peer.pid);
  if (!ticks) return;  // not visible here: nobody can name it by a pid
  const MutexLock lock(mu_);
  turned_away_.insert_or_assign(peer.pid,
                                Stranger{*ticks, version, std::move(shim_version), next_++});
  if (turned_away_.size() <= kMost) return;
  turned_away_.erase(std::min_element(
      turned_away_.begin(), turned_away_.end(),
      [](const auto& a, const auto& b) { return a.second.number < b.second.number; }));
}

absl::Status Unmanaged::Explain(const Caller& caller, pid_t pid) const {
  const Metadata metadata{{"pid", std::to_string(pid)}};
  const auto unknown = [&](std::string_view why) {
    return Fail(absl::StatusCode::kNotFound, "NO_PROCESS",
                Cat("no managed process has pid ", pid, why), metadata);
  };
  const auto ticks = pid > 0 ? StartTicks(pid) : std::nullopt;
  const auto user = pid > 0 ? UserOf(pid) : std::nullopt;
  if (!ticks || !user) return unknown("");
  if (!caller.MaySee(*user)) {
    return Fail(absl::StatusCode::kPermissionDenied, "UID_MISMATCH",
                Cat("process ", pid, " belongs to another user"), metadata);
  }
  std::optional<Stranger> stranger;
  {
    const MutexLock lock(mu_);
    const auto at = turned_away_.find(pid);
    if (at != turned_away_.end() && at->second.start_ticks == *ticks) stranger = at->second;
  }
  if (stranger) {
    const std::string accepted = Cat(wire::kOldestAccepted, " to ", wire::kVersion);
    Metadata more = metadata;
    more["version"] = std::to_string(stranger->version);
    more["accepted"] = accepted;
    if (!stranger->shim_version.empty()) more["shim_version"] = stranger->shim_version;
    return Fail(absl::StatusCode::kFailedPrecondition, "ABI_MISMATCH",
                Cat("the library in process ", pid, " speaks version ", stranger->version,
                    " of the protocol, this daemon accepts ", accepted,
                    ": start it again with the library of this release"),
                more);
  }
  const auto has_shim = HasShim(pid);
  if (!has_shim) return unknown("");
  if (*has_shim) return unknown(": it has made no CUDA context, or is not connected");
  return Fail(absl::StatusCode::kFailedPrecondition, "NOT_INSTRUMENTED",
              Cat("process ", pid, " has not loaded libparkade.so: start it with `parkade run`"),
              metadata);
}

}  // namespace parkade::daemon
