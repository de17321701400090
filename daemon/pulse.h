// Pulse: how a thread that waits for descriptors shows that it still comes round.
#pragma once

#include "common/deadline.h"
#include "common/fd.h"

namespace parkade::daemon {

class Pulse {
 public:
  Pulse();

  // Readable when somebody wants to know; the thread waits for it with the rest, then calls Answer.
  int fd() const { return asked_.get(); }
  void Answer();

  // Whether the thread answers by then. One thread at a time.
  bool Beats(Deadline by);

 private:
  Fd asked_, answered_;  // eventfds
};

}  // namespace parkade::daemon
