// Writes the recording of an invented day, by the daemon's own timeline and writer: 8 GPUs with
// three processes each, which take turns every five minutes. Usage: day_timeline DIRECTORY
#include <cstdio>
#include <string>

#include "daemon/node_timeline.h"
#include "daemon/timeline_recording.h"

namespace parkade::daemon {
namespace {

constexpr uint64_t kBeginNs = 1'790'000'000'000'000'000;
constexpr int kGpus = 8, kCycle = 300, kTrainFrom = 140, kMove = 4;  // seconds

struct Share {
  const char* role;
  const char* tag;
  Bytes bytes;
  bool trains;  // in HBM while the others are out
};
constexpr Share kShares[] = {
    {"rollout", "weights", 30_GiB, false}, {"rollout", "kv_cache", 60_GiB, false},
    {"actor", "weights", 30_GiB, true},    {"actor", "gradients", 15_GiB, true},
    {"actor", "optimizer", 45_GiB, true},  {"reference", "weights", 12_GiB, true},
};

// How much of what trains is in HBM, from 0 to 1.
double Training(int second) {
  const int at = second % kCycle;
  if (at < kTrainFrom) return at < kMove && second >= kCycle ? 1 - double(at) / kMove : 0;
  return at < kTrainFrom + kMove ? double(at - kTrainFrom) / kMove : 1;
}

NodeSample At(int second) {
  NodeSample sample;
  sample.time_ns = kBeginNs + uint64_t(second) * 1'000'000'000;
  sample.host = {2048_GiB, 1500_GiB - Bytes(second % 7) * 5_GiB};
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    const std::string uuid = "GPU-0000000" + std::to_string(gpu) + "-1111-2222-3333-444444444444";
    Bytes used = 2_GiB;
    for (const char* role : {"rollout", "actor", "reference"}) {
      ProcessSample& process = sample.processes.emplace_back();
      process.view.identity.pid = 1000 + int(sample.processes.size());
      process.view.introduction.job = "rl";
      process.view.introduction.role = role;
      process.view.introduction.rank = gpu;
      for (const Share& share : kShares) {
        if (std::string(share.role) != role) continue;
        const double in = share.trains ? Training(second) : 1 - Training(second);
        const Bytes hbm = Bytes(double(share.bytes) * in);
        const auto away = share.trains ? wire::Place::kDisk : wire::Place::kHost;
        process.parts.push_back({uuid, share.tag, wire::Place::kGpu, hbm});
        process.parts.push_back({uuid, share.tag, away, share.bytes - hbm});
        used += hbm;
      }
    }
    sample.gpus.push_back({uuid, "simulated", 141_GiB, 141_GiB - used, {}});
  }
  return sample;
}

v1::Operation HandoffAt(int second, int number) {
  v1::Operation operation;
  operation.set_id("day-" + std::to_string(number));
  operation.set_kind(v1::Operation::KIND_HANDOFF);
  operation.set_state(v1::Operation::STATE_DONE);
  operation.mutable_begin_time()->set_seconds(int64_t(kBeginNs / 1'000'000'000) + second);
  operation.mutable_end_time()->set_seconds(operation.begin_time().seconds() + kMove);
  for (int pid = 1001; pid <= 1000 + 3 * kGpus; ++pid) {
    operation.add_pids(pid);
    auto* result = operation.add_results();
    result->set_pid(pid);
    result->set_host_bytes(30_GiB);
    result->set_drain_seconds(0.2);
    result->set_move_seconds(3.5);
  }
  return operation;
}

v1::TimelineEntry MarkAt(int second, const char* name) {
  v1::TimelineEntry entry;
  entry.mutable_mark()->set_kind(v1::TimelineMark::KIND_PHASE);
  entry.mutable_mark()->set_name(name);
  entry.mutable_mark()->mutable_time()->set_seconds(int64_t(kBeginNs / 1'000'000'000) + second);
  return entry;
}

int Run(const std::string& directory) {
  const auto recording = TimelineRecording::Begin(directory, 1_GiB);
  if (!recording.ok()) return 1;
  NodeTimeline timeline({}, [&](const v1::TimelineEntry& entry) { (*recording)->Add(entry); });
  int number = 0;
  for (int second = 0; second < 24 * 3600; ++second) {
    const int at = second % kCycle;
    if (at == 0) (*recording)->Add(MarkAt(second, "generate"));
    if (at == kTrainFrom) (*recording)->Add(MarkAt(second, "train"));
    const bool moves = at <= kMove || (at >= kTrainFrom && at <= kTrainFrom + kMove);
    if (moves || at % 10 == 0) timeline.Add(At(second));
    if (at == kMove || at == kTrainFrom + kMove) timeline.Add(HandoffAt(second - kMove, ++number));
  }
  printf("%s\n", (*recording)->path().c_str());
  return 0;
}

}  // namespace
}  // namespace parkade::daemon

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: day_timeline DIRECTORY\n");
    return 2;
  }
  return parkade::daemon::Run(argv[1]);
}
