// Holds a recording against the rules, operation by operation.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "cli/format.h"
#include "cli/report.h"

namespace parkade::cli {
namespace {

using Series = v1::TimelineSeries;
constexpr uint64_t kMargin = uint64_t(1) << 30;       // of a handoff, as the API says
constexpr uint64_t kFlatMargin = uint64_t(64) << 20;  // beside the chunk

std::string Name(const v1::Operation& operation, int pid) {
  return absl::StrCat(OperationKindName(operation.kind()), " ", operation.id(), ", pid ", pid);
}

// Of a GPU, whatever its processes: what they gave back together is what it shows.
void CheckDrops(const v1::Operation& operation, std::vector<Check>& to) {
  for (const auto& result : operation.results()) {
    if (result.already()) continue;
    for (const auto& gpu : result.gpus()) {
      // Not to the last byte: pinning a backup takes page tables in HBM, 8 bytes for each 4 KiB.
      const uint64_t allowance = gpu.expected_bytes() / 256 + (uint64_t(8) << 20);
      const uint64_t drop =
          gpu.free_after_bytes() - std::min(gpu.free_before_bytes(), gpu.free_after_bytes());
      to.push_back({"drop", Name(operation, result.pid()), drop + allowance >= gpu.expected_bytes(),
                    absl::StrCat("the driver's free memory rose by ", FormatBytes(drop), " of ",
                                 FormatBytes(gpu.expected_bytes()), " on ", gpu.uuid())});
    }
  }
}

// What a handoff's GPUs held at most, by the processes' own count and by the driver.
void CheckPeaks(const v1::Operation& operation, const Recording& recording,
                std::vector<Check>& to) {
  std::set<std::string> told;
  const int64_t begin = MsOf(operation.begin_time()), end = MsOf(operation.end_time());
  for (const auto& result : operation.results()) {
    for (const auto& gpu : result.gpus()) {
      if (!told.insert(gpu.uuid()).second) continue;
      const std::string subject = Name(operation, result.pid());
      if (gpu.allowed_bytes() != 0) {
        to.push_back(
            {"peak", subject, gpu.peak_bytes() <= gpu.allowed_bytes(),
             absl::StrCat("its processes held ", FormatBytes(gpu.peak_bytes()), ", allowed ",
                          FormatBytes(gpu.allowed_bytes()), " on ", gpu.uuid())});
      }
      for (const Curve& curve : recording.curves) {
        if (curve.about.kind() != Series::KIND_GPU_USED || curve.about.gpu_uuid() != gpu.uuid() ||
            gpu.allowed_bytes() == 0) {
          continue;
        }
        const uint64_t most = curve.Most(begin, end);
        const uint64_t larger = std::max(curve.At(begin), curve.At(end));
        to.push_back({"peak by the driver", subject, most <= larger + kMargin,
                      absl::StrCat("it used ", FormatBytes(most), ", before or after ",
                                   FormatBytes(larger), " on ", gpu.uuid())});
      }
    }
  }
}

// Host memory of a process that pauses to disk alone, as it and as the kernel counts it.
void CheckFlat(const v1::Operation& operation, const Recording& recording, uint64_t chunk,
               std::vector<Check>& to) {
  const int64_t begin = MsOf(operation.begin_time()), end = MsOf(operation.end_time());
  for (const auto& result : operation.results()) {
    if (result.already() || result.disk_bytes() == 0 || result.host_bytes() != 0 ||
        !result.write_behind_id().empty()) {
      continue;
    }
    for (const Curve& curve : recording.curves) {
      const auto kind = curve.about.kind();
      if (curve.about.pid() != result.pid() ||
          (kind != Series::KIND_HOST_POOL && kind != Series::KIND_HOST_RESIDENT)) {
        continue;
      }
      const uint64_t before = curve.At(begin), most = curve.Most(begin, end);
      const uint64_t rise = most - std::min(before, most);
      const bool pool = kind == Series::KIND_HOST_POOL;
      to.push_back(
          {"flat", Name(operation, result.pid()), rise <= chunk + kFlatMargin,
           absl::StrCat(pool ? "its pinned memory" : "its resident memory", " rose by ",
                        FormatBytes(rise), ", allowed ", FormatBytes(chunk + kFlatMargin))});
    }
  }
}

}  // namespace

std::vector<Check> CheckRecording(const Recording& recording, uint64_t chunk) {
  std::vector<Check> checks;
  for (const v1::Operation& operation : recording.operations) {
    if (operation.state() != v1::Operation::STATE_DONE) continue;
    switch (operation.kind()) {
      case v1::Operation::KIND_PAUSE:
        CheckDrops(operation, checks);
        CheckFlat(operation, recording, chunk, checks);
        break;
      case v1::Operation::KIND_HANDOFF:
        CheckPeaks(operation, recording, checks);
        break;
      default:
        break;
    }
  }
  return checks;
}

}  // namespace parkade::cli
