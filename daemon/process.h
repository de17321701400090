// Process: one managed process as the daemon knows it, and the way to talk to its shim.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "daemon/deep.h"
#include "daemon/identity.h"
#include "daemon/round.h"
#include "daemon/scratch_directory.h"
#include "proto/channel.h"
#include "proto/ledger.h"

namespace parkade::daemon {

// Its bytes are not all in HBM, and it stays so until somebody resumes it.
inline bool IsOut(wire::ProcessState state) {
  return state == wire::ProcessState::kPaused || state == wire::ProcessState::kPartlyMoved;
}

// Figures of a ledger and a reply are their process's own claims: more than this, which is beyond
// every address, counts as this.
constexpr Bytes kMostClaimed = Bytes(1) << 56;

// What a Hello said about the process, made printable; its own word, of no weight beyond itself.
struct Introduction {
  std::string job, role, cell;
  std::optional<int32_t> rank;
  std::string shim_version;
  std::string wanted_scratch_base;
  bool scratch_base_yields = false;  // to one that the configuration names
  bool takes_turns = false;          // see PARKADE_WAKE
  wire::Policy default_policy = wire::Policy::kHost;
};
Introduction IntroductionOf(const wire::Hello& hello);

// The header of a ledger and what else is known at one moment.
struct ProcessView {
  Identity identity;
  std::string command;
  Introduction introduction;
  bool connected = false;
  bool asks_turn = false;  // it waits for memory that others have
  bool for_turn = false;   // its pause, or else its last or next one, is for others' turn
  std::string scratch_dir;
  // Of the ledger, or an event's; before the first ledger, what an earlier daemon knew.
  wire::ProcessState state = wire::ProcessState::kRunning;
  std::optional<wire::LedgerHeader> ledger;  // empty: unreadable
  DeepMark deep;                             // kFailed makes `state` so

  // It comes back when it is used.
  bool OutForTurn() const { return for_turn && IsOut(state); }
};

class Process {
 public:
  Process(Identity identity, Fd pidfd);

  const Identity& identity() const { return identity_; }
  int pid() const { return identity_.pid; }
  // Readable once the process has ended; -1 when it is not visible here.
  int pidfd() const { return pidfd_.get(); }
  FsUser user() const { return {identity_.uid, identity_.gid, GroupsOf(pid())}; }

  // Before its first connection: what an earlier daemon knew. No events, no ledger.
  void Remember(Introduction introduction, wire::ProcessState state, DeepMark deep, bool for_turn)
      EXCLUDES(mu_);
  // A connection has said a good Hello. It replaces the one before, whose unanswered messages are
  // answered with SHIM_DISCONNECTED.
  void Connect(Introduction introduction, std::shared_ptr<wire::Channel> channel,
               std::shared_ptr<const Fd> ledger) EXCLUDES(mu_);
  // `channel` is lost. No effect when another one has replaced it.
  void Disconnect(const wire::Channel* channel) EXCLUDES(mu_);
  // Whether the program that connected has made room for another one in its process (exec): it does
  // not hold its ledger any more. False where it never did, and while it is connected.
  bool HasBecomeAnother() const EXCLUDES(mu_);
  // Makes the shim go on alone: ends the connection from our side.
  void Drop() EXCLUDES(mu_);
  // The process has ended: nothing can be sent any more. Gives back its scratch directory.
  std::shared_ptr<ScratchDirectory> End() EXCLUDES(mu_);
  bool connected() const EXCLUDES(mu_);
  bool ended() const EXCLUDES(mu_);

  // Sends `message` with an op_id of its own; the answer, or why there is none, goes to `slot` of
  // `round`. Never waits for the other side for more than a moment. A message that begins or ends a
  // state is for whoever has claimed the process.
  template <typename M>
  void Send(M message, const std::shared_ptr<Round>& round, size_t slot,
            std::span<const int> fds = {}) {
    message.header.op_id = NextOpId();
    last_sent_ns_.store(MonotonicNs(), std::memory_order_relaxed);
    const auto channel = Expect(message.header.op_id, round, slot);
    if (channel == nullptr) return;
    if (auto r = channel->Send(message, Deadline::InMs(kSendMs), fds); !r.ok()) {
      NotSent(message.header.op_id, r.error());
    }
  }
  // When it was last sent a message; 0: never by this daemon.
  uint64_t last_sent_ns() const { return last_sent_ns_.load(std::memory_order_relaxed); }
  // Sends what has no answer, if the process is connected. Any thread.
  template <typename M>
  void Tell(const M& message) EXCLUDES(mu_) {
    if (const auto channel = Connected()) (void)channel->Send(message, Deadline::InMs(kSendMs));
  }
  // A Reply has come in on `channel`. One that nobody waits for is dropped.
  void Deliver(const wire::Channel* channel, const wire::Reply& reply) EXCLUDES(mu_);
  // Likewise, what stands before a Reply.
  void Deliver(const wire::Channel* channel, const wire::WrongBlock& note) EXCLUDES(mu_);

  // What is known now. Reads the ledger; never waits for the process.
  ProcessView View() const EXCLUDES(mu_);
  absl::StatusOr<wire::LedgerView> Ledger() const EXCLUDES(mu_);
  // The optimizer stores that it has open.
  absl::StatusOr<std::vector<wire::LedgerStore>> Stores() const EXCLUDES(mu_);
  wire::ProcessState State() const { return View().state; }

  // Whoever sets it has claimed the process.
  void SetDeep(DeepMark deep) EXCLUDES(mu_);
  // The write-behind that its backups are in; 0: in none. A new one takes the place of the one
  // before.
  uint64_t BeginBehind();
  void EndBehind() { behind_.store(0); }
  uint64_t behind() const { return behind_.load(); }

  // Whether its next pause, or the one in force, is for the turn of others and ends when it is
  // used. Whoever sets it has claimed the process.
  void SetForTurn(bool for_turn) { for_turn_.store(for_turn); }
  void SetAsksTurn(bool asks) { asks_turn_.store(asks); }
  // Since when it has its memory, CLOCK_MONOTONIC.
  void ComesIn() { came_in_ns_.store(MonotonicNs()); }
  uint64_t came_in_ns() const { return came_in_ns_.load(); }

  // False when the process has ended: the directory is then the caller's to remove.
  [[nodiscard]] bool SetScratch(std::shared_ptr<ScratchDirectory> scratch) EXCLUDES(mu_);
  std::shared_ptr<ScratchDirectory> scratch() const EXCLUDES(mu_);

 private:
  struct Expected {
    std::shared_ptr<Round> round;
    size_t slot;
  };
  // A healthy shim always has room for the few messages that can be under way.
  static constexpr uint64_t kSendMs = 1000;

  static uint64_t NextOpId();
  std::shared_ptr<wire::Channel> Connected() const EXCLUDES(mu_);
  std::shared_ptr<wire::Channel> Expect(uint64_t op_id, const std::shared_ptr<Round>& round,
                                        size_t slot) EXCLUDES(mu_);
  void NotSent(uint64_t op_id, const Error& error) EXCLUDES(mu_);
  // A status of its own for each: the thread that asked is the only one that has it.
  void AnswerAll(const std::map<uint64_t, Expected>& expected, bool ended) const;
  absl::Status Gone(bool ended) const;

  const Identity identity_;
  const std::string command_;
  const Fd pidfd_;
  std::atomic<uint64_t> last_sent_ns_{0};
  std::atomic<uint64_t> behind_{0};
  std::atomic<bool> for_turn_{false}, asks_turn_{false};
  std::atomic<uint64_t> came_in_ns_{MonotonicNs()};

  mutable Mutex mu_;  // before Round's; nothing is sent or read while it is held
  Introduction introduction_ GUARDED_BY(mu_);
  std::shared_ptr<wire::Channel> channel_ GUARDED_BY(mu_);
  std::shared_ptr<const Fd> ledger_ GUARDED_BY(mu_);
  bool held_its_ledger_ GUARDED_BY(mu_) = false;
  wire::ProcessState remembered_ GUARDED_BY(mu_) = wire::ProcessState::kRunning;  // until then
  DeepMark deep_ GUARDED_BY(mu_);
  std::map<uint64_t, Expected> expected_ GUARDED_BY(mu_);
  std::shared_ptr<ScratchDirectory> scratch_ GUARDED_BY(mu_);
  bool ended_ GUARDED_BY(mu_) = false;
};

}  // namespace parkade::daemon
