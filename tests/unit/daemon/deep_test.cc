// DeepPause alone: real processes on the simulated GPU, parkaded as their helpers, ledgers by hand.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/text.h"
#include "daemon/groups.h"
#include "daemon/service_text.h"
#include "daemon/status.h"
#include "tests/unit/daemon/deep_rank.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

constexpr int kShortMs = 100;
constexpr Bytes kContext = 16_MiB;

// What the simulated driver reads, for as long as this lives.
class File {
 public:
  File(std::string path, const std::string& text) : path_(std::move(path)) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

 private:
  const std::string path_;
};

std::string Folder() { return getenv("SIM_DIR"); }

// Where helpers look for the driver, for as long as this lives.
class DriverIn {
 public:
  explicit DriverIn(const std::string& folder) { setenv("LD_LIBRARY_PATH", folder.c_str(), 1); }
  ~DriverIn() { setenv("LD_LIBRARY_PATH", before_.c_str(), 1); }
  DriverIn(const DriverIn&) = delete;
  DriverIn& operator=(const DriverIn&) = delete;

 private:
  const std::string before_ = getenv("LD_LIBRARY_PATH");
};

}  // namespace

TEST_CASE("what a process has left goes and comes back, and the journal knows") {
  Node node;
  const Bytes all = node.Free();
  Rank rank;
  REQUIRE(node.Free() == all - kContext);
  DeepPause deep = node.Deep({&rank});
  deep.Down(node.journal);
  CHECK(rank.member.deep.refusal.ok());
  CHECK(rank.member.deep.deep);
  CHECK(rank.member.deep.bytes == kContext);
  CHECK(rank.member.deep.seconds > 0);
  CHECK(node.Free() == all);
  const DeepMark mark = rank.mark();
  CHECK(mark.state == DeepMark::State::kDeep);
  CHECK(mark.bytes == std::map<std::string, Bytes>{{sim::DeviceUuidText(0), kContext}});
  rank.peer.Say("alloc 4096");
  CHECK_FALSE(rank.peer.HasAnswered(kShortMs));
  {
    // As the next daemon would read it.
    TestDir copy;
    std::filesystem::copy(node.dir.path() + "/journal", copy.path() + "/journal");
    const Journal next(copy.path(), BootId());
    REQUIRE(next.found().processes.size() == 1);
    CHECK(next.found().processes[0].deep == mark);
  }

  REQUIRE(deep.Up().ok());
  CHECK(rank.mark() == DeepMark{});
  CHECK(rank.peer.Answer() == CUDA_SUCCESS);
  CHECK_FALSE(rank.member.deep.deep);
  CHECK(rank.member.deep.bytes == kContext);
}

TEST_CASE("what the ledger has against it is said before the driver is asked") {
  Node node;
  const std::pair<const char*, std::function<void(FakeLedger&)>> cases[] = {
      {"NOT_ALL_OUT", [](auto& l) { l.header.state = uint64_t(wire::ProcessState::kRunning); }},
      {"NOT_ALL_OUT", [](auto& l) { l.header.gate_mode = uint64_t(wire::GateMode::kOpen); }},
      {"NOT_ALL_OUT", [](auto& l) { l.Hold(AllocationClass::kPausable); }},
      {"NOT_ALL_OUT", [](auto& l) { l.Hold(AllocationClass::kHeld); }},
      {"FOREIGN_MEMORY", [](auto& l) { l.header.foreign[0].bytes[0] = 1; }},
      {"FOREIGN_MEMORY", [](auto& l) { l.header.foreign[1].bytes[1] = 1; }},
      {"FOREIGN_MEMORY", [](auto& l) { l.header.foreign[0].bytes[3] = UINT64_MAX; }},
  };
  const File faults(Folder() + "/faults", "cuCheckpointProcessLock 1 kill\n");
  for (const auto& [reason, change] : cases) {
    Rank rank;
    change(rank.ledger);
    rank.ledger.Write();
    node.Deep({&rank}).Down(node.journal);
    CHECK(rank.refusal() == reason);
    CHECK(rank.mark() == DeepMark{});
    CHECK(rank.Works());
  }
  Rank hidden(false);
  node.Deep({&hidden}).Down(node.journal);
  CHECK(hidden.refusal() == "NOT_VISIBLE");
}

TEST_CASE("pools, arrays and graphs are asked of the driver") {
  Node node;
  Rank rank;
  for (const size_t kind : {2, 4, 5}) rank.ledger.header.foreign[0].bytes[kind] = 1;
  rank.ledger.Write();
  DeepPause deep = node.Deep({&rank});
  deep.Down(node.journal);
  CHECK(rank.member.deep.deep);
  CHECK(deep.Up().ok());
}

TEST_CASE("all are locked before one is checkpointed, and one that cannot be unlocks all") {
  Node node;
  const Bytes all = node.Free();
  Rank busy, idle;
  busy.peer.Say("spin 2000");
  REQUIRE_FALSE(busy.peer.HasAnswered(kShortMs));
  node.Deep({&idle, &busy}, {.lock_ms = 50}).Down(node.journal);
  CHECK(busy.refusal() == "CUDA_ERROR_NOT_READY");
  CHECK(idle.refusal() == "PEER_REFUSED");
  CHECK(MetadataOf(idle.member.deep.refusal).at("peer_pid") == std::to_string(busy.peer.pid()));
  CHECK(idle.Works());
  CHECK(idle.mark() == DeepMark{});
  CHECK(busy.mark() == DeepMark{});
  CHECK(node.Free() <= all - 2 * kContext);
  CHECK(busy.peer.Answer() == CUDA_SUCCESS);
}

TEST_CASE("a checkpoint that the driver refuses is undone, those of others stay") {
  Node node;
  Rank shares, plain;
  REQUIRE(shares.peer.Do("export 2097152") == CUDA_SUCCESS);
  DeepPause deep = node.Deep({&shares, &plain});
  deep.Down(node.journal);
  CHECK(shares.refusal() == "CUDA_ERROR_NOT_SUPPORTED");
  CHECK(MetadataOf(shares.member.deep.refusal).at("call") == "cuCheckpointProcessCheckpoint");
  CHECK(shares.mark() == DeepMark{});
  CHECK(shares.Works());
  CHECK(plain.mark().state == DeepMark::State::kDeep);
  REQUIRE(deep.Up().ok());
  CHECK(plain.Works());
}

TEST_CASE("a call that hangs ends its helper, and another one asks what has become of it") {
  Node node;
  Rank rank;
  {
    const File faults(Folder() + "/faults", "cuCheckpointProcessLock 1 wait 60000ms\n");
    node.Deep({&rank}, {.lock_ms = 10}).Down(node.journal);
  }
  CHECK(rank.refusal() == "DRIVER_STALLED");
  CHECK(rank.mark() == DeepMark{});
  CHECK(rank.Works());
}

TEST_CASE("without a driver, or with one that is too old, it says so") {
  Node node;
  Rank rank;
  const TestDir empty, old;
  // Some library that has none of the functions.
  std::filesystem::create_symlink(std::string(getenv("LD_LIBRARY_PATH")) + "/libnvidia-ml.so.1",
                                  old.path() + "/libcuda.so.1");
  for (const TestDir* folder : {&empty, &old}) {
    const DriverIn place(folder->path());
    node.Deep({&rank}).Down(node.journal);
    CHECK(rank.refusal() == "DEEP_UNSUPPORTED");
    CHECK(rank.mark() == DeepMark{});
  }
  CHECK(MessageOf(rank.member.deep.refusal).find("older than 570") != std::string::npos);
}

TEST_CASE("what somebody else has locked is left alone") {
  Node node;
  Rank rank;
  DriverProcess other = rank.driver();
  REQUIRE(other.Do(DriverCall::kLock, 1000).ok());
  node.Deep({&rank}).Down(node.journal);
  CHECK(rank.refusal() == "CUDA_ERROR_ILLEGAL_STATE");
  CHECK(rank.mark() == DeepMark{});
  CHECK(*other.AskState(1000) == DriverProcess::State::kLocked);
  REQUIRE(other.Do(DriverCall::kUnlock, 1000).ok());
  CHECK(rank.Works());
}

TEST_CASE("the way back without room leaves it deep, and can be tried again") {
  Node node;
  Rank rank;
  DeepPause deep = node.Deep({&rank});
  deep.Down(node.journal);
  const DeepMark mark = rank.mark();
  {
    sim::Peer taker;
    REQUIRE(taker.Do("alloc " + std::to_string(node.Free())) == CUDA_SUCCESS);
    const absl::Status up = deep.Up();
    CHECK(ReasonOf(up) == "GPU_MEMORY");
    CHECK(rank.mark() == mark);
  }
  REQUIRE(deep.Up().ok());
  CHECK(rank.Works());
}

TEST_CASE("a process that the driver has given up is failed") {
  Node node;
  Rank rank;
  {
    const File broken(Folder() + "/config", "checkpoint_breaks 1\n");
    node.Deep({&rank}).Down(node.journal);
  }
  CHECK(rank.refusal() == "CHECKPOINT_FAILED");
  CHECK(rank.mark().state == DeepMark::State::kFailed);
  CHECK(rank.member.process->State() == wire::ProcessState::kFailed);
  const auto members = MembersFor(
      {rank.member.process}, [](const Process&, const ProcessView&) { return false; }, 0);
  CHECK(ReasonOf(members.status()) == "CHECKPOINT_FAILED");
}

TEST_CASE("a process that ends while it is deep is gone, whatever is asked") {
  Node node;
  Rank rank;
  DeepPause deep = node.Deep({&rank});
  deep.Down(node.journal);
  REQUIRE(rank.mark().state == DeepMark::State::kDeep);
  rank.peer.Kill();
  CHECK(ReasonOf(deep.Up()) == "PROCESS_ENDED");
}

TEST_CASE("what an earlier daemon's helper is still about is waited for") {
  Node node;
  Rank rank;
  auto left = std::make_unique<DriverProcess>(rank.member.process, Rank::Helper());
  REQUIRE(left->AskState(1000).ok());
  DriverProcess::Helper helper = Rank::Helper();
  helper.earlier = std::make_shared<const EarlierHelpers>(EarlierHelpers::Find());
  {
    DriverProcess::Helper hasty = helper;
    hasty.start_ms = 100;
    DriverProcess later(rank.member.process, hasty);
    CHECK(ReasonOf(later.AskState(1000).status()) == "DRIVER_STALLED");
  }
  const Rank other;
  DriverProcess about_another(other.member.process, helper);
  CHECK(about_another.AskState(1000).ok());

  left.reset();
  DriverProcess later(rank.member.process, helper);
  CHECK(later.AskState(1000).ok());
}

TEST_CASE("what an earlier daemon has left is as the driver says") {
  Node node;
  Rank running, locked, checkpointed;
  for (Rank* rank : {&running, &locked, &checkpointed}) {
    rank->member.process->SetDeep({DeepMark::State::kDeep});
  }
  REQUIRE(locked.driver().Do(DriverCall::kLock, 1000).ok());
  REQUIRE(checkpointed.driver().Do(DriverCall::kLock, 1000).ok());
  REQUIRE(checkpointed.driver().Do(DriverCall::kCheckpoint, 1000).ok());
  DeepPause deep = node.Deep({&running, &locked, &checkpointed});
  deep.Settle();
  CHECK(running.mark() == DeepMark{});
  CHECK(locked.mark() == DeepMark{});
  CHECK(locked.Works());
  CHECK(checkpointed.mark().state == DeepMark::State::kDeep);
  REQUIRE(deep.Up().ok());
  CHECK(checkpointed.Works());
}

TEST_CASE("the API's request is checked, and its answer has what came of it") {
  PauseOrder order;
  order.deep = true;
  CHECK(Check(order).ok());
  order.gate.mode = wire::GateMode::kOpen;
  CHECK(ReasonOf(Check(order)) == "BAD_POLICY");

  const Groups groups({});
  const Caller caller;
  const Asker asker{caller, groups};
  v1::PauseRequest pause;
  CHECK_FALSE(Read(pause, asker)->deep);
  pause.set_deep(true);
  CHECK(Read(pause, asker)->deep);
  v1::HandoffRequest handoff;
  *handoff.mutable_outgoing() = pause;
  CHECK(ReasonOf(Read(handoff, asker).status()) == "BAD_REQUEST");

  Outcome outcome;
  v1::TransitionResult result;
  Write(outcome, &result);
  CHECK_FALSE(result.has_deep());
  outcome.deep = {true, true, 620, 0.7, {}};
  Write(outcome, &result);
  CHECK(result.deep().deep());
  CHECK(result.deep().freed_bytes() == 620);
  CHECK(result.deep().seconds() == 0.7);
  CHECK_FALSE(result.deep().has_refusal());
  outcome.deep = {true, false, 0, 0, Fail(absl::StatusCode::kInternal, "CUDA_ERROR_X", "no")};
  Write(outcome, &result);
  CHECK(result.deep().refusal().reason() == "CUDA_ERROR_X");

  ProcessView view;
  v1::Process process;
  view.deep.state = DeepMark::State::kDeep;
  Write(view, &process);
  CHECK(process.deep());
}

TEST_CASE("nothing is locked once the journal is closed") {
  Node node;
  Rank rank;
  DeepPause deep = node.Deep({&rank});
  node.journal.Close();
  deep.Down(node.journal);
  CHECK(rank.refusal() == "SHUTTING_DOWN");
  CHECK(rank.mark() == DeepMark{});
  CHECK(rank.Works());
}
