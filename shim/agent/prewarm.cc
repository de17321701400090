// Watches one number.
#include "shim/agent/prewarm.h"

namespace parkade::shim {

Bytes Prewarm::Due(Bytes allocated, uint64_t now_ns) {
  const Bytes now = wanted_ == kAuto ? allocated : wanted_;
  if (now != seen_) {
    seen_ = now;
    since_ns_ = now_ns;
  }
  if (now <= asked_ || (wanted_ == kAuto && now_ns - since_ns_ < kRestNs)) return 0;
  asked_ = now;
  return now;
}

}  // namespace parkade::shim
