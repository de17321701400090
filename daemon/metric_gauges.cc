// Adds up and labels.
#include "daemon/metric_gauges.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>

#include "daemon/proc_file.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// One family while it is written; values of the same labels add up.
class Gauge {
 public:
  Gauge(MetricFamilies& to, const char* name, const char* help, MetricType type = MetricType::Gauge)
      : to_(to), family_{name, help, type, {}} {}
  ~Gauge() {
    for (const auto& [labels, value] : values_) {
      ClientMetric metric;
      metric.label = labels;
      (family_.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
      family_.metric.push_back(std::move(metric));
    }
    if (!family_.metric.empty()) to_.push_back(std::move(family_));
  }
  Gauge(const Gauge&) = delete;
  Gauge& operator=(const Gauge&) = delete;

  void Add(const Labels& labels, double value) { values_[labels] += value; }

 private:
  MetricFamilies& to_;
  MetricFamily family_;
  std::map<Labels, double> values_;
};

const char* StateName(wire::ProcessState state) {
  constexpr const char* kNames[] = {"",       "running",   "preparing",    "prepared", "evicting",
                                    "paused", "restoring", "partly_moved", "failed"};
  return kNames[uint32_t(state)];
}

void AddProcesses(const NodeSample& sample, MetricFamilies& to) {
  Gauge states(to, "parkade_rank_state", "Managed processes in that state.");
  Gauge connected(to, "parkade_shim_connected",
                  "Managed processes whose library is connected to the daemon.");
  Gauge managed(to, "parkade_managed_bytes",
                "HBM of managed processes, by GPU, labels of the job, tag and state.");
  Gauge backups(to, "parkade_backup_bytes", "Bytes that are out, and where.");
  connected.Add({}, 0);
  for (const char* target : {"disk", "host"}) backups.Add({{"target", target}}, 0);
  for (const ProcessSample& process : sample.processes) {
    const ProcessView& view = process.view;
    const std::string state = StateName(view.state);
    const auto& who = view.introduction;
    const std::string rank = who.rank ? std::to_string(*who.rank) : "";
    states.Add({{"job", who.job}, {"role", who.role}, {"state", state}}, 1);
    connected.Add({}, view.connected ? 1 : 0);
    for (const TagBytes& part : process.parts) {
      if (part.place != wire::Place::kGpu) continue;
      managed.Add({{"gpu_uuid", part.gpu_uuid},
                   {"job", who.job},
                   {"role", who.role},
                   {"rank", rank},
                   {"tag", part.tag},
                   {"state", state}},
                  double(part.bytes));
    }
    if (!view.ledger) continue;
    backups.Add({{"target", "host"}}, double(view.ledger->host_backup_bytes));
    backups.Add({{"target", "disk"}}, double(view.ledger->disk_backup_bytes));
  }
}

void AddGpus(const NodeSample& sample, MetricFamilies& to) {
  std::map<std::string, Bytes> managed;
  for (const ProcessSample& process : sample.processes) {
    for (const TagBytes& part : process.parts) {
      if (part.place == wire::Place::kGpu) managed[part.gpu_uuid] += part.bytes;
    }
  }
  Gauge total(to, "parkade_gpu_total_bytes", "Memory of the GPU, by the driver.");
  Gauge free(to, "parkade_gpu_free_bytes", "Free memory of the GPU, by the driver.");
  Gauge unmanaged(to, "parkade_unmanaged_bytes",
                  "Used memory of the GPU that no managed process counts.");
  for (const GpuView& gpu : sample.gpus) {
    const Labels labels{{"gpu_uuid", gpu.uuid}};
    const Bytes used = gpu.total - std::min(gpu.free, gpu.total);
    total.Add(labels, double(gpu.total));
    free.Add(labels, double(gpu.free));
    unmanaged.Add(labels, double(used - std::min(managed[gpu.uuid], used)));
  }
}

// The numbers of /proc/self/stat from field 3 on; its second field may hold anything.
double StatField(const std::string& stat, size_t field) {
  const size_t end = stat.rfind(')');
  const auto words = Split(end == stat.npos ? "" : std::string_view(stat).substr(end + 1), " ");
  if (words.size() + 3 <= field) return 0;
  return double(ReadNumber<uint64_t>(words[field - 3]).value_or(0));
}

double OpenFiles() {
  double count = 0;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.';
  closedir(folder);
  return count - 1;  // the folder's own
}

double BootSeconds() {
  for (std::string_view line : Split(ReadProcFile("/proc/stat", 1 << 20), "\n")) {
    if (line.starts_with("btime ")) return double(ReadNumber<uint64_t>(line.substr(6)).value_or(0));
  }
  return 0;
}

}  // namespace

void AddNodeGauges(const NodeSample& sample, const std::vector<Budgets::Entry>& budgets,
                   MetricFamilies& to) {
  AddProcesses(sample, to);
  AddGpus(sample, to);
  Gauge available(to, "parkade_host_available_bytes",
                  "Host memory that could be had without swapping, of the node.");
  available.Add({}, double(sample.host.available));
  Gauge disk(to, "parkade_disk_free_bytes", "Free space beneath a scratch directory.");
  for (const BaseReport& base : sample.bases) {
    if (base.usable.ok()) disk.Add({{"path", base.path}}, double(base.free_bytes));
  }
  Gauge limit(to, "parkade_host_budget_bytes",
              "Host memory that backups may take, of the node (job empty) or a job.");
  Gauge used(to, "parkade_host_budget_used_bytes", "Host memory that backups take of that budget.");
  for (const Budgets::Entry& entry : budgets) {
    const Labels labels{{"job", entry.limits.job}};
    if (entry.limits.host) limit.Add(labels, double(*entry.limits.host));
    used.Add(labels, double(entry.use.HostBytes()));
  }
}

void AddProcessGauges(MetricFamilies& to) {
  const std::string stat = ReadProcFile("/proc/self/stat");
  const double ticks = double(sysconf(_SC_CLK_TCK));
  const auto add = [&to](const char* name, const char* help, double value,
                         MetricType type = MetricType::Gauge) {
    Gauge(to, name, help, type).Add({}, value);
  };
  add("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
      (StatField(stat, 14) + StatField(stat, 15)) / ticks, MetricType::Counter);
  add("process_resident_memory_bytes", "Resident memory size in bytes.",
      StatField(stat, 24) * double(sysconf(_SC_PAGESIZE)));
  add("process_virtual_memory_bytes", "Virtual memory size in bytes.", StatField(stat, 23));
  add("process_threads", "Number of threads.", StatField(stat, 20));
  add("process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
      BootSeconds() + StatField(stat, 22) / ticks);
  add("process_open_fds", "Number of open file descriptors.", OpenFiles());
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  add("process_max_fds", "Maximum number of open file descriptors.", double(files.rlim_cur));
}

}  // namespace parkade::daemon
