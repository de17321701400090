// Goals: what is already paused or resumed, tag by tag, and what cannot be asked for.
#include "daemon/goal.h"

#include <catch2/catch.hpp>

#include "daemon/status.h"
#include "tests/unit/daemon/wired_group.h"

using namespace parkade;
using namespace parkade::daemon;
using testing::kToHost;
using testing::WiredGroup;
using wire::GateMode;
using wire::Policy;
using wire::ProcessState;

namespace {

const GateOrder kGate{.drain_timeout_ns = 500'000'000};
const std::string kUuid = "GPU-01020304-0506-0708-090a-0b0c0d0e0f10";

Policies Only(std::vector<std::string> tags) {
  Policies policies{Policy::kHost, {}};
  policies.only = std::move(tags);
  return policies;
}

ResumeOrder Back(std::vector<std::string> tags, GateMode gate = GateMode::kOpen) {
  ResumeOrder order;
  order.tags = std::move(tags);
  order.gate = gate;
  return order;
}

// Engines of 1 MiB of weights and 2 MiB of cache each; the first is looked at.
struct Engines : WiredGroup {
  Engines() : WiredGroup({2000, 2000, 2000}, {{1_MiB, "weights"}, {2_MiB, "kv_cache"}}) {}

  void Pause(const Transition::Eviction& eviction = kToHost, GateMode mode = GateMode::kClosed) {
    auto pause = Begin();
    GateOrder gate = kGate;
    gate.mode = mode;
    REQUIRE(pause.Prepare(gate).ok());
    REQUIRE(pause.Commit(eviction).ok());
  }
  void Resume(std::vector<std::string> tags, GateMode gate = GateMode::kOpen) {
    for (Member& m : members) m.is_back = false;
    REQUIRE(Begin().Resume({false, std::move(tags), gate}).ok());
  }
  bool Is(const AtGoal& goal) const {
    return goal(*members[0].process, members[0].process->View());
  }
  std::vector<std::shared_ptr<Process>> Processes() const {
    std::vector<std::shared_ptr<Process>> processes;
    for (const Member& m : members) processes.push_back(m.process);
    return processes;
  }
};

}  // namespace

TEST_CASE("paused is who has nothing left in HBM that the pause would move, at a gate as asked") {
  Engines engines;
  const Policies all{Policy::kHost, {}};
  CHECK_FALSE(engines.Is(PausedBy(all, GateMode::kClosed)));
  engines.Pause();
  CHECK(engines.Is(PausedBy(all, GateMode::kClosed)));
  CHECK(engines.Is(PausedBy(Only({"kv_cache"}), GateMode::kClosed)));
  CHECK(engines.Is(PausedBy(all, GateMode::kOpen)));  // a pause opens no gate

  engines.Resume({"weights"});
  CHECK_FALSE(engines.Is(PausedBy(all, GateMode::kClosed)));
  CHECK_FALSE(engines.Is(PausedBy(all, GateMode::kOpen)));
  CHECK_FALSE(engines.Is(PausedBy(Only({"weights"}), GateMode::kOpen)));
  CHECK(engines.Is(PausedBy(Only({"kv_cache"}), GateMode::kOpen)));
  CHECK_FALSE(engines.Is(PausedBy(Only({"kv_cache"}), GateMode::kClosed)));  // the gate is open
  const Policies keeps{Policy::kHost, {{"weights", Policy::kKeep}}};
  CHECK(engines.Is(PausedBy(keeps, GateMode::kOpen)));
}

TEST_CASE("resumed is who runs, or has the tags in HBM at a gate as asked") {
  Engines engines;
  CHECK(engines.Is(ResumedBy(Back({}))));
  CHECK(engines.Is(ResumedBy(Back({"weights"}))));
  engines.Pause();
  CHECK_FALSE(engines.Is(ResumedBy(Back({}))));
  CHECK_FALSE(engines.Is(ResumedBy(Back({"weights"}))));
  engines.Resume({"weights"}, GateMode::kClosed);
  CHECK(engines.Is(ResumedBy(Back({"weights"}, GateMode::kClosed))));
  CHECK_FALSE(engines.Is(ResumedBy(Back({"weights"}))));  // the gate is still to be opened
  engines.Resume({"weights"});
  CHECK(engines.Is(ResumedBy(Back({"weights"}))));
  CHECK_FALSE(engines.Is(ResumedBy(Back({"weights", "kv_cache"}))));
  CHECK_FALSE(engines.Is(ResumedBy(Back({}))));
}

TEST_CASE("a resume of tags names those that there are, and closes no gate") {
  Engines engines;
  engines.Pause();
  const auto processes = engines.Processes();
  CHECK(CheckParts(Back({}), processes).ok());
  CHECK(CheckParts(Back({"kv_cache", "weights"}, GateMode::kClosed), processes).ok());
  const auto unknown = CheckParts(Back({"weights", "optimizer"}), processes);
  CHECK(ReasonOf(unknown) == "UNKNOWN_TAG");
  CHECK(MetadataOf(unknown)["tag"] == "optimizer");
  CHECK(MetadataOf(unknown)["known_tags"] == "kv_cache,weights");
  ResumeOrder empty = Back({"optimizer"});
  empty.allow_empty = true;
  CHECK(CheckParts(empty, processes).ok());
  engines.Resume({"weights"});
  const auto open = CheckParts(Back({"kv_cache"}, GateMode::kClosed), processes);
  CHECK(ReasonOf(open) == "GATE_OPEN");
  CHECK(MetadataOf(open)["pid"] == "100");
  CHECK(CheckParts(Back({"kv_cache"}), processes).ok());
}

TEST_CASE("what a resume of tags lacks is theirs alone") {
  Engines engines;
  engines.Pause();
  CHECK(Lacking(engines.members) == GpuAccount::ByGpu{{kUuid, 9_MiB}});
  CHECK(Lacking(engines.members, {"weights"}) == GpuAccount::ByGpu{{kUuid, 3_MiB}});
  engines.Resume({"weights"});
  CHECK(Lacking(engines.members, {"weights"}).empty());
  CHECK(Lacking(engines.members) == GpuAccount::ByGpu{{kUuid, 6_MiB}});
}

TEST_CASE("what a process claims to lack is bounded, however much it claims") {
  testing::WiredGroup hostile({2000, 2000, 2000},
                              {{Bytes(1) << 63, "kv_cache"}, {Bytes(1) << 63, "kv_cache"}});
  auto pause = hostile.Begin();
  REQUIRE(pause.Prepare({}).ok());
  REQUIRE(pause.Commit({{Policy::kKeep, {{"kv_cache", Policy::kDiscard}}}, 256_MiB}).ok());
  std::vector<Member> one;
  one.emplace_back().process = hostile.members[0].process;
  CHECK(Lacking(one) == GpuAccount::ByGpu{{kUuid, kMostClaimed}});
  one[0].finished.code = 1;
  one[0].finished.stats.needed_bytes = UINT64_MAX;
  CHECK(Lacking(one) == GpuAccount::ByGpu{{kUuid, kMostClaimed}});
}

TEST_CASE("members of a process that is paused in part know what it has on disk") {
  Engines engines;
  engines.Pause({{Policy::kHost, {}}, 256_MiB});
  const auto members =
      MembersFor(engines.Processes(), PausedBy(Only({"weights"}), GateMode::kClosed), 0);
  REQUIRE(members.ok());
  CHECK((*members)[0].already);
  CHECK((*members)[0].was_out);
  CHECK((*members)[0].disk_out == 0);
  engines.Resume({"weights"});
  const auto further =
      MembersFor(engines.Processes(), PausedBy(Only({"weights"}), GateMode::kClosed), 0);
  REQUIRE(further.ok());
  CHECK_FALSE((*further)[0].already);
  CHECK((*further)[0].was_out);
}
