// WriteBehinds: starts what moves the bytes of pauses on to disk, as operations of their own.
#pragma once

#include <string>

#include "daemon/journal.h"
#include "daemon/node_state.h"
#include "daemon/operations.h"
#include "daemon/registry.h"

namespace parkade::daemon {

class WriteBehinds {
 public:
  // Both outlive it.
  WriteBehinds(NodeState& node, Operations& operations) : node_(node), operations_(operations) {}

  // Any thread. Returns the operation's id; empty where none can be started any more: the bytes
  // then stay in host memory.
  std::string Begin(const std::string& caller, const BehindOrder& order);
  // Those that the end of an earlier daemon has interrupted go on, as operations of the same
  // callers.
  void GoOn(const Journal& journal, const Registry& registry);

 private:
  NodeState& node_;
  Operations& operations_;
};

}  // namespace parkade::daemon
