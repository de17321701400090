// Wired, WiredGroup: processes with a FakeShim each, and no listener between, for tests of
// transitions.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/events.h"
#include "daemon/transition.h"
#include "tests/unit/daemon/fake_shim.h"

namespace parkade::testing {

// A process with its shim, and the thread that the listener would be.
class Wired {
 public:
  Wired(int number, FakeShimSettings settings) : job_(settings.job), shim_(std::move(settings)) {
    daemon::Identity identity;
    identity.pid = identity.own_pid = number;
    process_ = std::make_shared<daemon::Process>(identity, Fd());
    Connect(shim_.rank());
  }
  ~Wired() { Join(); }

  // After the connection was lost: connects again.
  void Reconnect() {
    Join();
    Connect(shim_.rank());
  }
  const std::shared_ptr<daemon::Process>& process() const { return process_; }
  FakeShim& shim() { return shim_; }

 private:
  void Connect(int32_t rank) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    channel_ = std::make_shared<wire::Channel>(Fd(ends[0]));
    daemon::Introduction introduction;
    if (rank >= 0) introduction.rank = rank;
    introduction.job = job_;
    introduction.takes_turns = shim_.takes_turns();
    process_->Connect(introduction, channel_, std::make_shared<const Fd>(dup(shim_.ledger())));
    shim_.Serve(wire::Channel(Fd(ends[1])));
    pump_ = std::thread([this] { Pump(); });
  }
  void Join() {
    shim_.Disconnect();
    pump_.join();
  }
  void Pump() {
    wire::Packet packet;
    while (channel_->Receive(&packet, Deadline::InMs(3'600'000)).ok()) {
      wire::WrongBlock wrong;
      if (packet.Read(&wrong)) process_->Deliver(channel_.get(), wrong);
      wire::Reply reply;
      if (packet.Read(&reply)) process_->Deliver(channel_.get(), reply);
    }
    process_->Disconnect(channel_.get());
  }

  const std::string job_;
  FakeShim shim_;
  std::shared_ptr<daemon::Process> process_;
  std::shared_ptr<wire::Channel> channel_;
  std::thread pump_;
};

// Processes of 1 MiB, unless told otherwise, numbered from 100 on and of ranks from 0 on, and
// transitions over them.
struct WiredGroup {
  explicit WiredGroup(daemon::Transition::Limits chosen = {2000, 2000, 2000}, size_t count = 3,
                      FakeJob* launches = nullptr, int first = 100, Bytes bytes = 1_MiB)
      : limits(chosen) {
    for (size_t i = 0; i < count; ++i) Add(first + int(i), {{bytes}}, launches);
  }
  // Three of these allocations each.
  WiredGroup(daemon::Transition::Limits chosen, const std::vector<FakeAllocation>& allocations)
      : limits(chosen) {
    for (int i = 0; i < 3; ++i) Add(100 + i, allocations, nullptr);
  }
  void Add(int number, const std::vector<FakeAllocation>& allocations, FakeJob* launches) {
    const size_t rank = wired.size();
    wired.push_back(std::make_unique<Wired>(number, FakeShimSettings{.allocations = allocations,
                                                                     .rank = int32_t(rank),
                                                                     .launches = launches,
                                                                     .launch_rank = rank}));
    daemon::Member member;
    member.process = wired.back()->process();
    for (const FakeAllocation& a : allocations) member.grant.host += a.bytes;
    members.push_back(std::move(member));
  }
  daemon::Transition Begin() { return daemon::Transition(members, events, limits); }
  FakeShim& shim(size_t i) { return wired[i]->shim(); }
  bool AllAre(wire::ProcessState state) {
    for (const auto& w : wired) {
      if (!w->shim().WaitFor(state)) return false;
    }
    return true;
  }

  daemon::Transition::Limits limits;
  std::vector<std::unique_ptr<Wired>> wired;
  std::vector<daemon::Member> members;
  daemon::Events events;
};

// To host memory, with nothing special.
inline const daemon::Transition::Eviction kToHost{{wire::Policy::kHost, {}}, 256_MiB};

}  // namespace parkade::testing
