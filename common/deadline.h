// Deadline: a moment on CLOCK_MONOTONIC until which a wait may last.
#pragma once

#include <time.h>

#include <cstdint>

namespace parkade {

inline uint64_t MonotonicNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000 + uint64_t(t.tv_nsec);
}

class Deadline {
 public:
  static Deadline InMs(uint64_t ms) { return InNs(ms * 1'000'000); }
  static Deadline InNs(uint64_t ns) {
    const uint64_t now = MonotonicNs();
    return Deadline(ns > kNever - now ? kNever : now + ns);
  }
  // For an application thread at a closed gate, the one wait without an end.
  static Deadline Never() { return Deadline(kNever); }

  bool Passed() const { return MonotonicNs() >= at_ns_; }
  uint64_t LeftNs() const {
    const uint64_t now = MonotonicNs();
    return now >= at_ns_ ? 0 : at_ns_ - now;
  }
  // Rounded up, so that a poll() with it never wakes before the deadline; at most `cap_ms`.
  int LeftMs(int cap_ms = 1'000'000'000) const {
    const uint64_t ms = (LeftNs() + 999'999) / 1'000'000;
    return ms > uint64_t(cap_ms) ? cap_ms : int(ms);
  }
  bool IsNever() const { return at_ns_ == kNever; }
  timespec At() const { return {time_t(at_ns_ / 1'000'000'000), long(at_ns_ % 1'000'000'000)}; }

 private:
  static constexpr uint64_t kNever = UINT64_MAX / 4;
  explicit Deadline(uint64_t at_ns) : at_ns_(at_ns) {}
  uint64_t at_ns_;
};

}  // namespace parkade
