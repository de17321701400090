// Pulse: a thread that comes round, and one that does not.
#include "daemon/pulse.h"

#include <poll.h>

#include <catch2/catch.hpp>
#include <thread>

using namespace parkade;
using namespace parkade::daemon;

TEST_CASE("a thread that looks at its pulse beats, again and again") {
  Pulse pulse;
  std::thread thread([&] {
    for (int i = 0; i < 3; ++i) {
      pollfd asked{pulse.fd(), POLLIN, 0};
      poll(&asked, 1, -1);
      pulse.Answer();
    }
  });
  for (int i = 0; i < 3; ++i) CHECK(pulse.Beats(Deadline::InMs(30'000)));
  thread.join();
}

TEST_CASE("a thread that is stuck does not beat, and a late answer is none to the next question") {
  Pulse pulse;
  CHECK_FALSE(pulse.Beats(Deadline::InMs(1)));
  pulse.Answer();
  CHECK_FALSE(pulse.Beats(Deadline::InMs(1)));
}
