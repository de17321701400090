// Asks the signs one after the other.
#include "daemon/watchdog.h"

#include <utility>

#include "common/log.h"

namespace parkade::daemon {

Watchdog::Watchdog(const Supervisor& supervisor, std::vector<Sign> signs)
    : supervisor_(supervisor), signs_(std::move(signs)), due_(Deadline::InMs(0)) {}

int Watchdog::DueMs() const { return supervisor_.watchdog_ms() == 0 ? -1 : due_.LeftMs(); }

void Watchdog::Look() {
  // Four looks in the supervisor's time, so that one sign that came late is no end.
  const uint64_t quarter_ms = supervisor_.watchdog_ms() / 4;
  due_ = Deadline::InMs(quarter_ms);
  const Deadline by = Deadline::InMs(quarter_ms);
  bool all = true;
  for (const Sign& sign : signs_) {
    if (sign.shows(by)) continue;
    Log(LogLevel::kError, "watchdog: no sign of life of the %s within %d ms", sign.of.c_str(),
        int(quarter_ms));
    all = false;
  }
  if (all) supervisor_.Alive();
}

}  // namespace parkade::daemon
