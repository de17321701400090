// Gpus: what the driver's own account says about the node's GPUs, by NVML opened at run time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/mutex.h"

namespace parkade::daemon {

struct GpuView {
  std::string uuid;
  std::string name;
  Bytes total = 0;
  Bytes free = 0;
  std::map<int, Bytes> users;  // by pid, as NVML numbers them
};

class Gpus {
 public:
  // Opens libnvidia-ml.so.1; without one, or without a driver, there are no GPUs and source() says
  // why.
  Gpus();
  ~Gpus();
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  // "nvml", or why there are no figures.
  const std::string& source() const { return source_; }

  // The driver's version, and what of the GPUs decides what can be done with them: MIG,
  // confidential computing. A sentence each; for the log.
  const std::vector<std::string>& remarks() const { return remarks_; }

  // Asks the driver now; some ms. Any thread.
  std::vector<GpuView> Read() const;
  // Free bytes by uuid; those that are not known are left out.
  std::map<std::string, Bytes> Free(const std::vector<std::string>& uuids) const;
  // What the driver counts for a process on these; 0: unknown.
  Bytes UsedBy(int pid, const std::vector<std::string>& uuids) const;

 private:
  struct Nvml;
  struct Device {
    void* handle;
    std::string uuid, name;
  };

  std::string Open();
  void Remark();

  Nvml* nvml_ = nullptr;
  void* library_ = nullptr;
  std::string source_;
  std::vector<std::string> remarks_;  // constant after construction
  std::vector<Device> devices_;       // constant after construction
};

}  // namespace parkade::daemon
