// Declares the few NVML calls that are needed: there is no header of it on most build machines.
#include "daemon/gpus.h"

#include <dlfcn.h>

#include <algorithm>
#include <memory>

#include "daemon/words.h"

namespace parkade::daemon {
namespace {

constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
constexpr unsigned long long kNotAvailable = ~0ull;

// nvmlMemory_t and nvmlProcessInfo_t (v2 and later) as nvml.h has them.
struct Memory {
  unsigned long long total, free, used;
};
struct ConfidentialState {  // nvmlConfComputeSystemState_t
  unsigned int environment, feature, tools_mode;
};
struct ProcessInfo {
  unsigned int pid;
  unsigned long long used_gpu_memory;
  unsigned int gpu_instance_id, compute_instance_id;
};

}  // namespace

struct Gpus::Nvml {
  int (*init)();
  int (*shutdown)();
  int (*count)(unsigned int*);
  int (*handle)(unsigned int, void**);
  int (*uuid)(void*, char*, unsigned int);
  int (*name)(void*, char*, unsigned int);
  int (*memory)(void*, Memory*);
  int (*processes)(void*, unsigned int*, ProcessInfo*);  // null: drivers before 510 lack it
  const char* (*error)(int);
  // Null where this NVML is too old.
  int (*driver)(char*, unsigned int);
  int (*mig)(void*, unsigned int* current, unsigned int* pending);
  int (*confidential)(ConfidentialState*);
};

Gpus::Gpus() { source_ = Open(); }

std::string Gpus::Open() {
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return Cat("no NVML: ", dlerror());
  auto nvml = std::make_unique<Nvml>();
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name, bool needed = true) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library_, name));
    if (function == nullptr && needed) missing = name;
  };
  find(nvml->init, "nvmlInit_v2");
  find(nvml->shutdown, "nvmlShutdown");
  find(nvml->count, "nvmlDeviceGetCount_v2");
  find(nvml->handle, "nvmlDeviceGetHandleByIndex_v2");
  find(nvml->uuid, "nvmlDeviceGetUUID");
  find(nvml->name, "nvmlDeviceGetName");
  find(nvml->memory, "nvmlDeviceGetMemoryInfo");
  find(nvml->processes, "nvmlDeviceGetComputeRunningProcesses_v3", false);
  find(nvml->error, "nvmlErrorString", false);
  find(nvml->driver, "nvmlSystemGetDriverVersion", false);
  find(nvml->mig, "nvmlDeviceGetMigMode", false);
  find(nvml->confidential, "nvmlSystemGetConfComputeState", false);
  if (missing != nullptr) return Cat("NVML has no ", missing);

  if (const int r = nvml->init(); r != kSuccess) {
    return Cat("NVML does not start: ", nvml->error ? nvml->error(r) : "", " (", r, ")");
  }
  unsigned int count = 0;
  if (nvml->count(&count) != kSuccess) count = 0;
  for (unsigned int i = 0; i < count; ++i) {
    Device device{};
    char uuid[96] = {}, name[96] = {};
    if (nvml->handle(i, &device.handle) != kSuccess) continue;
    if (nvml->uuid(device.handle, uuid, sizeof uuid) != kSuccess) continue;
    if (nvml->name(device.handle, name, sizeof name) == kSuccess) device.name = name;
    device.uuid = uuid;
    devices_.push_back(std::move(device));
  }
  nvml_ = nvml.release();
  Remark();
  return "nvml";
}

void Gpus::Remark() {
  char version[96] = {};
  if (nvml_->driver != nullptr && nvml_->driver(version, sizeof version) == kSuccess) {
    remarks_.push_back(Cat("driver ", version));
  }
  for (const Device& device : devices_) {
    unsigned int on = 0, pending = 0;
    if (nvml_->mig == nullptr || nvml_->mig(device.handle, &on, &pending) != kSuccess || on == 0) {
      continue;
    }
    remarks_.push_back(Cat(device.uuid,
                           " is divided by MIG: what its slices have free is not known, "
                           "and pauses on them have not been tried"));
  }
  ConfidentialState state{};
  if (nvml_->confidential != nullptr && nvml_->confidential(&state) == kSuccess &&
      state.feature != 0) {
    remarks_.push_back(
        "confidential computing is on: copies are encrypted, and pauses have not been tried");
  }
}

Gpus::~Gpus() {
  if (nvml_ != nullptr) nvml_->shutdown();
  delete nvml_;
  if (library_ != nullptr) dlclose(library_);
}

std::vector<GpuView> Gpus::Read() const {
  std::vector<GpuView> views;
  for (const Device& device : devices_) {
    GpuView view{device.uuid, device.name, 0, 0, {}};
    Memory memory{};
    if (nvml_->memory(device.handle, &memory) == kSuccess) {
      view.total = memory.total;
      view.free = memory.free;
    }
    std::vector<ProcessInfo> running(64);
    unsigned int n = unsigned(running.size());
    int r = nvml_->processes ? nvml_->processes(device.handle, &n, running.data()) : -1;
    if (r == kInsufficientSize) {
      running.resize(n + 16);  // more may start in between
      n = unsigned(running.size());
      r = nvml_->processes(device.handle, &n, running.data());
    }
    for (unsigned int i = 0; r == kSuccess && i < n; ++i) {
      const auto used = running[i].used_gpu_memory;
      view.users[int(running[i].pid)] += used == kNotAvailable ? 0 : used;
    }
    views.push_back(std::move(view));
  }
  return views;
}

std::map<std::string, Bytes> Gpus::Free(const std::vector<std::string>& uuids) const {
  std::map<std::string, Bytes> free;
  for (const Device& device : devices_) {
    if (std::find(uuids.begin(), uuids.end(), device.uuid) == uuids.end()) continue;
    Memory memory{};
    if (nvml_->memory(device.handle, &memory) == kSuccess) free[device.uuid] = memory.free;
  }
  return free;
}

Bytes Gpus::UsedBy(int pid, const std::vector<std::string>& uuids) const {
  Bytes used = 0;
  for (const GpuView& view : Read()) {
    if (std::find(uuids.begin(), uuids.end(), view.uuid) == uuids.end()) continue;
    if (const auto at = view.users.find(pid); at != view.users.end()) used += at->second;
  }
  return used;
}

}  // namespace parkade::daemon
