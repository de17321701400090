// GpuQueue: who waits for memory of which GPUs, in the order of their turns.
//
// First come, first served among those of one priority, behind those of a higher one. Knows no
// lock and no clock but the times it is given; its owner locks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"

namespace parkade::daemon {

using ByGpu = std::map<std::string, Bytes>;  // by uuid

// What a request waits for on one GPU; see GpuWait in operation.proto.
struct GpuWait {
  std::string uuid;
  Bytes needed = 0;
  Bytes free = 0;  // the driver's word
  Bytes booked = 0;
  Bytes reserved = 0;
  Bytes ahead = 0;  // needed by those before it
  uint32_t position = 1;
  int32_t priority = 0;
  double waited_seconds = 0;
};

class GpuQueue {
 public:
  // A place in the queue. One that leaves and comes back has its old one.
  struct Place {
    int32_t priority = 0;
    uint64_t ticket = 0;  // 0: it has never stood there
    uint64_t since_ns = 0;
  };
  // Stands there from now on with these needs, in the place of those it had.
  void Enter(Place& place, ByGpu needed, const std::string& name, uint64_t now_ns);
  // False: it did not stand there.
  bool Leave(const Place& place);

  // What those before it need, and how many of them there are, by GPU.
  struct Ahead {
    ByGpu bytes;
    std::map<std::string, uint32_t> count;
  };
  Ahead AheadOf(const Place& place) const;

  struct Waiter {
    std::string name;
    uint32_t position;
    int32_t priority;
    Bytes needed;
    uint64_t since_ns;
  };
  std::vector<Waiter> On(const std::string& uuid) const;

 private:
  using Key = std::pair<int64_t, uint64_t>;  // the priority below zero, the ticket
  struct Entry {
    std::string name;
    ByGpu needed;
    uint64_t since_ns;
  };
  static Key KeyOf(const Place& place) { return {-int64_t(place.priority), place.ticket}; }

  std::map<Key, Entry> entries_;
  uint64_t last_ticket_ = 0;
};

}  // namespace parkade::daemon
