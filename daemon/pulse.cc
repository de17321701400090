// A question and an answer, an eventfd each.
#include "daemon/pulse.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace parkade::daemon {
namespace {

void Raise(const Fd& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(event.get(), &one, sizeof one);
}

void Lower(const Fd& event) {
  uint64_t count;
  [[maybe_unused]] const ssize_t n = read(event.get(), &count, sizeof count);
}

}  // namespace

Pulse::Pulse()
    : asked_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      answered_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Pulse::Answer() {
  Lower(asked_);
  Raise(answered_);
}

bool Pulse::Beats(Deadline by) {
  Lower(answered_);  // of a question that was answered late
  Raise(asked_);
  pollfd answer{answered_.get(), POLLIN, 0};
  for (;;) {
    const int n = poll(&answer, 1, by.LeftMs());
    if (n == 1) return true;
    if (n == 0 || errno != EINTR) return false;
  }
}

}  // namespace parkade::daemon
