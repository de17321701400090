// Prewarm: when, and for how much, this process asks for host memory before it is paused.
#pragma once

#include <cstdint>

#include "common/bytes.h"

namespace parkade::shim {

// Agent thread.
class Prewarm {
 public:
  static constexpr Bytes kAuto = UINT64_MAX;  // as much as is allocated

  explicit Prewarm(Bytes wanted) : wanted_(wanted) {}

  // Another daemon, which knows nothing yet.
  void Forget() { asked_ = 0; }
  // What is to be asked for now, when so many bytes are allocated; 0: nothing. Each size once, and
  // under kAuto when it has lasted for a second: a program that is being built up asks at its end.
  Bytes Due(Bytes allocated, uint64_t now_ns);

 private:
  static constexpr uint64_t kRestNs = 1'000'000'000;

  const Bytes wanted_;  // 0: nothing, ever
  Bytes asked_ = 0;
  Bytes seen_ = 0;
  uint64_t since_ns_ = 0;  // seen_ has not changed
};

}  // namespace parkade::shim
