// Adds up and prints.
#include "common/timeline.h"

#include <cstdio>
#include <cstring>

#include "common/log.h"

namespace parkade {

void Timeline::Ended(const char* step) {
  const uint64_t now = MonotonicNs();
  size_t i = 0;
  while (i < count_ && strcmp(steps_[i].name, step) != 0) ++i;
  if (i == kMostSteps) --i;
  if (i == count_) steps_[count_++] = {step, 0};
  steps_[i].ns += now - last_ns_;
  last_ns_ = now;
}

void Timeline::Log(const char* what) const {
  char text[400];
  size_t end = 0;
  for (size_t i = 0; i < count_ && end < sizeof text; ++i) {
    end += size_t(snprintf(text + end, sizeof text - end, "%s%s %.2f", i == 0 ? "" : " + ",
                           steps_[i].name, double(steps_[i].ns) / 1e6));
  }
  parkade::Log(LogLevel::kDebug, "%s: %.2f ms = %s", what, double(last_ns_ - start_ns_) / 1e6,
               end == 0 ? "nothing" : text);
}

}  // namespace parkade
