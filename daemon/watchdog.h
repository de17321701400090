// Watchdog: tells the supervisor that the daemon is alive for as long as each of its threads shows
// it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/deadline.h"
#include "daemon/supervisor.h"

namespace parkade::daemon {

class Watchdog {
 public:
  // Something that shows life by a time, or does not; what it is stands in the log then.
  struct Sign {
    std::string of;
    std::function<bool(Deadline)> shows;
  };

  // `supervisor` outlives it.
  Watchdog(const Supervisor& supervisor, std::vector<Sign> signs);

  // As poll takes it: until the next Look is due; -1 where nobody watches.
  int DueMs() const;

  // Asks for every sign, for a quarter of the supervisor's time at most in all, and tells it when
  // all have shown. One that has not is logged, and the supervisor hears nothing this time.
  void Look();

 private:
  const Supervisor& supervisor_;
  const std::vector<Sign> signs_;
  Deadline due_;
};

}  // namespace parkade::daemon
