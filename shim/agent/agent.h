// Agent: the one thread of an idle shim. Keeps the connection to the daemon, hears its requests,
// and goes on alone when the daemon is gone.
#pragma once

#include <atomic>

#include "common/fd.h"
#include "proto/channel.h"
#include "shim/agent/identity.h"
#include "shim/agent/operations.h"
#include "shim/agent/prewarm.h"
#include "shim/agent/settings.h"
#include "shim/agent/turn_asker.h"
#include "shim/heap/ledger_writer.h"
#include "shim/heap/wants.h"
#include "shim/libc/thread.h"

namespace parkade::shim {

class Agent {
 public:
  // A prepared process waits this long for its Commit before it opens the gate by itself: a daemon
  // that is alive but stuck must not hold it for ever.
  static constexpr uint64_t kPreparedLeaseNs = 60'000'000'000;

  // All outlive it.
  Agent(const Settings& settings, const Identity& identity, LedgerWriter& ledger,
        Operations& operations, Wants& wants, TurnWaits& turns,
        uint64_t prepared_lease_ns = kPreparedLeaseNs);

  // Starts the thread, which runs as long as the process. Without a daemon it tries again, ten
  // times a second at first, then once a second.
  Result<void> Start();

  // In a forked child, where the thread does not exist: closes what was inherited. Must look
  // nothing up: another thread may have held the loader's lock at the fork. Never destroyed
  // afterwards.
  void AbandonAfterFork();

 private:
  static void Work(void* self);
  void Run();
  Result<wire::Channel> Join();
  void Serve(wire::Channel& channel);
  Result<void> SendReplies(wire::Channel& channel);
  Result<void> SendWants(wire::Channel& channel);
  Result<void> AskForMemory(wire::Channel& channel);
  Result<void> AskForTurn(wire::Channel& channel);
  void TellRefusal(const wire::NoTurn& no);
  void RefreshCounters();

  const Settings& settings_;
  const Identity& identity_;
  LedgerWriter& ledger_;
  Operations& operations_;
  Wants& wants_;
  TurnWaits& turns_;
  const uint64_t prepared_lease_ns_;
  Prewarm prewarm_;
  TurnAsker asker_;
  std::atomic<int> socket_{-1};  // of the present connection, for AbandonAfterFork
  Thread thread_;
};

}  // namespace parkade::shim
