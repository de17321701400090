// Thread: signals, name and end of a thread of the shim's own.
#include "shim/libc/thread.h"

#include <signal.h>
#include <sys/prctl.h>

#include <catch2/catch.hpp>
#include <string>
#include <utility>

using namespace parkade::shim;

namespace {

struct Seen {
  bool all_blocked = true;
  std::string name;
  int runs = 0;
};

void Look(void* arg) {
  Seen& seen = *static_cast<Seen*>(arg);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGPROF}) {
    seen.all_blocked = seen.all_blocked && sigismember(&mask, signal) == 1;
  }
  char name[16] = {};
  prctl(PR_GET_NAME, name);
  seen.name = name;
  ++seen.runs;
}

}  // namespace

TEST_CASE("a thread of the shim takes no signal, has its name, and is waited for") {
  Seen seen;
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    auto thread = Thread::Start("parkade-with-a-long-name", Look, &seen);
    REQUIRE(thread.ok());
    CHECK(thread->joinable());
  }
  CHECK(seen.runs == 1);
  CHECK(seen.all_blocked);
  CHECK(seen.name == "parkade-with-a-");
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  CHECK(sigismember(&after, SIGTERM) == sigismember(&before, SIGTERM));
}

TEST_CASE("a thread moves, and is joined once") {
  Seen seen;
  auto started = Thread::Start("parkade", Look, &seen);
  REQUIRE(started.ok());
  Thread moved = std::move(*started);
  CHECK_FALSE(started->joinable());
  moved.Join();
  CHECK_FALSE(moved.joinable());
  moved.Join();
  CHECK(seen.runs == 1);
}
