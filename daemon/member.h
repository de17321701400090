// Member: one process of a transition, with what it is granted and what it answered.
#pragma once

#include <memory>

#include "daemon/planner.h"
#include "daemon/process.h"

namespace parkade::daemon {

struct Member {
  std::shared_ptr<Process> process;
  bool already = false;  // it is where the transition leads; it gets no message
  Grant grant;
  std::shared_ptr<ScratchDirectory> scratch;  // null: no bytes of it go to disk
  wire::Reply prepared{};
  wire::Reply finished{};  // of Commit or Resume
  bool was_out = false;    // before the transition: an undo leaves it there
};

}  // namespace parkade::daemon
