// Exchange: the messages of a handoff, from the first byte to the open gates of who came in.
//
// Knows no budgets; node_handoff plans and prepares, this carries out, and undoes.
#pragma once

#include "absl/status/status.h"
#include "common/timeline.h"
#include "daemon/course.h"
#include "daemon/pace.h"
#include "daemon/transition.h"

namespace parkade::daemon {

class Exchange {
 public:
  // All outlive it. `out` is prepared.
  Exchange(Transition& out, Transition& in, Pace& pace, Course& course, uint64_t stall_ms)
      : out_(out), in_(in), pace_(pace), course_(course), stall_ms_(stall_ms) {}

  // Moves both ways at once. On failure who came in is out again with its backup and who went out
  // is back, but for those that the message names. What can fail after the last byte is the opening
  // of a gate: then the one who came in is left partly moved, the others are where they are to be,
  // and the message names it. The end of the moves goes into `timeline`.
  absl::Status Run(const Transition::Eviction& eviction, bool release_host, Timeline& timeline);

 private:
  absl::Status Move(const Transition::Eviction& eviction);

  Transition& out_;
  Transition& in_;
  Pace& pace_;
  Course& course_;
  const uint64_t stall_ms_;
};

}  // namespace parkade::daemon
