// EngineProcess: a rollout engine as the tests of pauses in part see it: weights, a cache and the
// rest, on two GPUs, paused and brought back by tags.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/shim/pause/fault_ways.h"

namespace parkade::shim {

inline constexpr char kCache[] = "kv_cache";
inline constexpr char kWeights[] = "weights";
inline constexpr Bytes kFileBytes = 24_MiB;  // of all that these tests put on disk, and more

inline std::unique_ptr<ParkedProcess> StartEngine() {
  auto p = std::make_unique<ParkedProcess>(FakeDriver::Options{.devices = 2});
  p->files_in_memory = true;
  p->same_files = true;
  p->Allocate(1_MiB + 300, kCache, 0);
  p->Allocate(100_KiB, kWeights, 0);
  p->Allocate(70'000, kCache, 1);
  p->Allocate(40'000, kWeights, 1);
  p->Allocate(5000, "default", 0);
  p->MapOwn(0, 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  return p;
}

// What goes where; what is not named has the policy `rest`.
struct Split {
  Policy cache, weights, rest;
};
inline constexpr Split kAllToHost{Policy::kHost, Policy::kHost, Policy::kHost};
inline constexpr Split kAllToDisk{Policy::kDisk, Policy::kDisk, Policy::kDisk};
inline constexpr Split kMixed{Policy::kDisk, Policy::kHost, Policy::kHost};

inline Freezer::Outcome PauseEngine(ParkedProcess& p, const Split& split,
                                    const Freezer::GateOrder& order = {}) {
  const wire::TagPolicy tags[] = {ParkedProcess::Tag(kCache, split.cache),
                                  ParkedProcess::Tag(kWeights, split.weights)};
  EvictionPlan plan;
  plan.chunk_bytes = 2_MiB;
  plan.host_bytes = 4_GiB;
  plan.disk_bytes = kFileBytes;
  plan.tags = tags;
  // Files come along wherever something goes to one.
  const bool disk =
      split.cache == Policy::kDisk || split.weights == Policy::kDisk || split.rest == Policy::kDisk;
  std::vector<wire::TagPolicy> named(std::begin(tags), std::end(tags));
  if (disk && split.rest != Policy::kDisk) {
    named.push_back(ParkedProcess::Tag("default", split.rest));
    plan.tags = named;
  }
  return p.Pause(disk ? Policy::kDisk : split.rest, plan, order);
}

inline Freezer::Outcome ResumeTags(ParkedProcess& p, std::vector<std::string> tags,
                                   wire::GateMode mode = wire::GateMode::kOpen) {
  return p.freezer.Resume(5, 0, {std::move(tags), mode});
}

inline bool TagRight(const ParkedProcess& p, std::string_view tag) {
  return std::all_of(p.app.begin(), p.app.end(), [tag](const ParkedProcess::Buffer& b) {
    return b.tag != tag || ParkedProcess::Right(b);
  });
}

// The engine writes to what it has back, in place.
inline void Update(ParkedProcess& p, std::string_view tag) {
  for (ParkedProcess::Buffer& b : p.app) {
    if (b.tag != tag) continue;
    b.seed += 1000;
    ParkedProcess::Fill(b);
  }
}

// Paused in part: the gate open or closed, as the ledger says too.
inline bool IsPartlyPaused(const ParkedProcess& p, wire::GateMode mode) {
  const auto ledger = wire::ReadLedgerHeader(p.ledger->fd());
  return p.freezer.state() == ProcessState::kPaused && p.ledger->state() == ProcessState::kPaused &&
         ledger.ok() && ledger->gate_mode == uint64_t(mode) &&
         Gate::IsClosed() == (mode == wire::GateMode::kClosed);
}

// The core of a step: all is out, the weights come back and are written to.
inline std::unique_ptr<ParkedProcess> StartWithWeightsBack(const Split& split) {
  auto p = StartEngine();
  REQUIRE(PauseEngine(*p, split).result.ok());
  REQUIRE(p->fake.handle_bytes() == 0);
  REQUIRE(ResumeTags(*p, {kWeights}).result.ok());
  REQUIRE(IsPartlyPaused(*p, wire::GateMode::kOpen));
  Update(*p, kWeights);
  return p;
}

}  // namespace parkade::shim
