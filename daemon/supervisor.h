// Supervisor: tells whoever has started the daemon as a service how it is, by systemd's
// notification protocol (sd_notify(3)): datagrams of NAME=VALUE lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/environment.h"

namespace parkade::daemon {

// Any thread. A message that cannot be sent is lost: the supervisor draws its own conclusions.
class Supervisor {
 public:
  // By NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Without the first nobody is told anything.
  explicit Supervisor(Environment environment);

  // Serves callers; also the end of a reload. `status` is a sentence for people, as in the others.
  void Ready(std::string_view status) const;
  void Reloading() const;
  void Stopping(std::string_view status) const;
  // All is well. Whoever has set watchdog_ms ends the daemon when it does not come in time.
  void Alive() const;

  // Within which Alive is awaited again; 0: it is not.
  uint64_t watchdog_ms() const { return watchdog_ms_; }

 private:
  void Send(std::string_view lines) const;

  std::string socket_;
  uint64_t watchdog_ms_ = 0;
};

}  // namespace parkade::daemon
