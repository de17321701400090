// ShimListener: accepts shims, checks their Hello, passes their replies on, and sees them end.
//
// One thread, one epoll. Whatever a client sends, or stops sending, costs it its own connection at
// most.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "common/fd.h"
#include "daemon/events.h"
#include "daemon/identity.h"
#include "daemon/log_limit.h"
#include "daemon/process.h"
#include "daemon/pulse.h"
#include "daemon/registry.h"
#include "proto/channel.h"

namespace parkade::daemon {

class ShimListener {
 public:
  struct Limits {
    uint64_t hello_ms = 5000;       // from accept to Hello
    size_t strangers_per_uid = 64;  // connections without a Hello; one more, and the oldest goes
    size_t connections = 8192;
  };

  // What others have to do with connections. None may block.
  struct Hooks {
    // A process says that it holds this directory from an earlier daemon; the lock may be missing.
    std::function<void(Process&, const std::string& path, Fd lock)> adopt;
    // The process of this directory has ended.
    std::function<void(std::shared_ptr<ScratchDirectory>)> bury;
    // A process lives, but its shim has gone away.
    std::function<void(std::shared_ptr<Process>)> forsaken;
    // A process asks who holds memory that it found no room in.
    std::function<void(std::shared_ptr<Process>, const wire::Want&)> wants;
    // A process would like to hold so much host memory before its first pause.
    std::function<void(std::shared_ptr<Process>, Bytes)> asks_warm;
    // A shim was turned away for the version of its wire; what it says of its own is made
    // printable. May read /proc.
    std::function<void(const Peer&, uint32_t version, const std::string& shim_version)> turned_away;
    // A process that takes turns says what it waits for. Empty: nobody hears it.
    std::function<void(std::shared_ptr<Process>, const wire::AskTurn&)> asks_turn = {};
  };

  // `registry` and `events` outlive it. What is in the registry already are processes of an earlier
  // daemon that have not come back yet. Serves until it is destroyed.
  ShimListener(Fd socket, Registry& registry, Events& events, Hooks hooks, Limits limits);
  ~ShimListener();

  // Closes every connection: the shims go on alone. Nothing is accepted afterwards.
  void Stop();

  // Whether its thread comes round by then. Not after Stop.
  bool IsAlive(Deadline by) { return pulse_.Beats(by); }

 private:
  struct Connection {
    std::shared_ptr<wire::Channel> channel;
    Peer peer;
    Deadline hello_by;
    std::shared_ptr<Process> process;  // null before its Hello
  };

  void Loop();
  void Accept();
  // False: close the connection.
  bool Read(Connection& connection);
  bool OnHello(Connection& connection, wire::Packet& packet);
  // A packet that is no message may still be the Hello of another version.
  void OnNoMessage(const Connection& connection, const wire::Packet& packet);
  absl::Status Admit(Connection& connection, const wire::Hello& hello, wire::Packet& packet);
  void Close(uint64_t id);
  // False, and errno set, when the kernel refuses.
  bool WatchEnd(const std::shared_ptr<Process>& process);
  void OnProcessEnd(uint64_t id);
  void Remove(const std::shared_ptr<Process>& process);
  int CloseLateStrangers();
  // Takes those off the list that have become another program. Returns how long the loop may sleep.
  int LookAfterLeavers();
  void Unwatch(const std::shared_ptr<Process>& process);
  // Closes the oldest stranger of that user when there are as many as there may be.
  void MakeRoomFor(uid_t uid);

  const Limits limits_;
  Registry& registry_;
  Events& events_;
  const Hooks hooks_;
  Fd socket_;
  Fd epoll_;
  Fd stop_;
  Fd spare_;
  Pulse pulse_;
  // The loop's alone. An id is never used again, so an event left in a batch after its connection
  // was closed meets nobody.
  uint64_t next_id_ = 3;
  std::map<uint64_t, Connection> connections_;
  LogLimit complaints_;
  std::map<uint64_t, std::shared_ptr<Process>> watched_;  // by the id of their pidfd
  struct Leaver {
    std::shared_ptr<Process> process;
    Deadline look_at;
  };
  std::vector<Leaver> leavers_;  // whose shim has gone, and who were not seen to be another yet
  std::thread thread_;
};

}  // namespace parkade::daemon
