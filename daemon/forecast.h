// Forecast: what would come of an order, without carrying it out; see Forecast in control.proto.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/gpu_account.h"
#include "daemon/planner.h"

namespace parkade::daemon {

struct ProcessForecast {
  int pid = 0;
  bool already = false;
  std::vector<TagShare> tags;  // of a pause
  GpuAccount::ByGpu needed;    // of a resume
  Bytes host = 0;
  Bytes disk = 0;
  Bytes new_host = 0;
};

struct Forecast {
  std::vector<ProcessForecast> processes;
  std::vector<absl::Status> refusals;
  double seconds = 0;  // 0: not known

  void Refuse(absl::Status why) {
    if (!why.ok()) refusals.push_back(std::move(why));
  }
};

}  // namespace parkade::daemon
