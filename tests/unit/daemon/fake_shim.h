// FakeShim: the shim's side of the wire with allocations that are only numbers, for tests of the
// daemon without a GPU. It keeps a real ledger and checks what the daemon grants.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/bytes.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "proto/channel.h"
#include "proto/ledger.h"
#include "tests/unit/daemon/fake_job.h"

namespace parkade::testing {

// What it does when a message comes.
enum class Act {
  kWork,
  kRefuse,         // answers with an error, state as before
  kHang,           // answers nothing to it, goes on with the next
  kDisconnect,     // closes the connection instead of working
  kDropAnswer,     // does its work, then closes the connection without an answer
  kAnswerAndDrop,  // does its work, answers, then closes the connection
};

struct FakeAllocation {
  Bytes bytes;
  std::string tag = "default";
};

struct FakeShimSettings {
  std::vector<FakeAllocation> allocations = {};
  std::string job = {}, role = {};
  int32_t rank = -1;
  std::string wanted_scratch_base = {};
  wire::Policy default_policy = wire::Policy::kHost;
  bool takes_turns = false;
  FakeJob* launches = nullptr;  // null: nothing that takes time
  size_t launch_rank = 0;       // its own in there
};

// All calls from the test's thread; Serve runs on a thread of its own.
class FakeShim {
 public:
  explicit FakeShim(FakeShimSettings settings);
  ~FakeShim();

  // A Hello that tells the truth about this process.
  wire::Hello MakeHello() const;
  int ledger() const { return ledger_.get(); }
  int32_t rank() const { return settings_.rank; }
  bool takes_turns() const { return settings_.takes_turns; }

  // Connects to the daemon's socket, says Hello, waits for its Welcome, and serves.
  Result<void> Connect(const std::string& path);
  // Serves a channel on which Hello and Welcome are past.
  void Serve(wire::Channel channel);
  // Ends the connection from this side. Alone, it does as a shim does: a closed gate opens, what is
  // paused stays so.
  void Disconnect();

  // Says how much host memory it would like to hold.
  Result<void> AskWarm(Bytes host_bytes);

  // From the next message of that type on, or after that many more of it.
  void On(wire::Type type, Act act, int after = 0) EXCLUDES(mu_);
  // What a Verify or Shift finds, before it is served; and whether it takes until something else
  // comes.
  void SetWrong(std::vector<wire::WrongBlock> wrong) { wrong_ = std::move(wrong); }
  void HoldVerify() { holds_verify_ = true; }
  // What its ledger says of bytes under way; no op_id: nothing is.
  void SetMoving(uint64_t op_id, Bytes moved, Bytes total);
  // Pinned host memory that its ledger says it keeps beside backups.
  void KeepHost(Bytes bytes);
  // Adds to what Prepare says that it would evict, as slack the ledger does not list.
  void AddUnlisted(Bytes bytes) { unlisted_ = bytes; }

  wire::ProcessState state() const { return wire::ProcessState(state_.load()); }
  // Waits for a state, 5 s at most.
  bool WaitFor(wire::ProcessState state) const;
  // Messages of a type that have come.
  int Count(wire::Type type) const EXCLUDES(mu_);
  wire::Commit last_commit() const EXCLUDES(mu_);
  wire::Shift last_shift() const EXCLUDES(mu_);
  wire::Prepare last_prepare() const EXCLUDES(mu_);
  // The last NoTurn that has come.
  std::optional<wire::NoTurn> no_turn() const EXCLUDES(mu_);
  // What the daemon has allowed a Resume in turn last.
  Bytes room() const { return room_; }
  // What its ledger says has come, or gone, in the transition under way.
  void SetShifted(int64_t bytes);
  Bytes last_warm() const { return warm_bytes_; }

 private:
  // A Prepare or LetThrough whose launches still run.
  struct Draining {
    uint64_t op_id;
    Deadline by;
    Deadline arrival;  // LetThrough: no call came by then
    uint32_t calls;    // of it, that have not come yet; 0: all have
  };

  // A Resume in turn that has no room for its bytes yet.
  struct Arriving {
    uint64_t op_id;
    Act act;
  };

  void Loop();
  bool LookAtRoom();
  bool AnswerVerify(const wire::Verify& verify);
  bool AnswerShift(const wire::Shift& shift);
  bool EndVerify();
  Bytes Needed() const;
  bool Handle(wire::Packet& packet);
  bool Work(wire::Packet& packet, Act act);
  // Looks how far `draining_` is. False: the connection is to end.
  bool LookAtDrain();
  bool Answer(uint64_t op_id, const Result<void>& result, bool already = false);
  Result<void> Evict(wire::Packet& packet, const wire::Commit& commit);
  bool IsIn(size_t allocation) const { return places_[allocation] == wire::Place::kGpu; }
  bool AnyOut() const;
  Bytes Pausable() const;
  // Whether a Prepare of what is paused finds nothing to do.
  bool IsDone(const wire::Prepare& prepare) const;
  // Brings back what a Resume asks for. False: there is nothing to do.
  bool BringBack(const wire::Resume& resume);
  // Where it is when a pause has come to nothing.
  void GoBack();
  void SetState(wire::ProcessState state);
  void WriteRecords();
  void WriteHeader();
  wire::Policy PolicyOf(const wire::Commit& commit, const std::string& tag) const;

  const FakeShimSettings settings_;
  Fd ledger_;
  Fd lock_;  // of the scratch directory, as long as it is held
  std::string scratch_;
  std::atomic<uint32_t> state_{uint32_t(wire::ProcessState::kRunning)};
  std::atomic<Bytes> unlisted_{0};
  std::atomic<Bytes> warm_bytes_{0};
  std::atomic<Bytes> kept_host_{0};
  std::atomic<uint64_t> moving_op_{0};
  std::atomic<Bytes> moved_bytes_{0}, to_move_{0};
  Bytes host_bytes_ = 0, disk_bytes_ = 0;
  std::vector<wire::Place> places_;  // by allocation
  std::vector<bool> moved_;          // likewise, by the last Commit
  uint64_t gate_before_ = 0;         // the last Prepare
  bool can_undo_ = false;            // nothing has come since the last Commit
  uint64_t epoch_ = 0, gate_mode_ = 0;
  wire::Stats stats_{};
  std::optional<Draining> draining_;  // the serving thread's
  Act draining_act_ = Act::kWork;
  std::optional<Arriving> arriving_;  // likewise
  std::vector<wire::WrongBlock> wrong_;
  std::atomic<bool> holds_verify_{false};
  uint64_t held_verify_ = 0;  // op_id of one that takes its time; the serving thread's
  std::atomic<Bytes> room_{0};
  std::atomic<int64_t> shifted_{0};
  std::unique_ptr<wire::Channel> channel_;
  mutable Mutex mu_;
  struct Told {
    Act act;
    int after;
  };
  std::map<wire::Type, Told> acts_ GUARDED_BY(mu_);
  std::map<wire::Type, int> counts_ GUARDED_BY(mu_);
  wire::Commit commit_ GUARDED_BY(mu_){};
  wire::Shift shift_ GUARDED_BY(mu_){};
  wire::Prepare prepare_ GUARDED_BY(mu_){};
  std::optional<wire::NoTurn> no_turn_ GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace parkade::testing
