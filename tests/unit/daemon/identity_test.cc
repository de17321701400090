// Identity: what a process may claim and what /proc says.
#include "daemon/identity.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "common/text.h"
#include "daemon/status.h"
#include "tests/unit/daemon/fake_shim.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

Peer OurPeer() { return {getpid(), geteuid(), getegid(), {}}; }

}  // namespace

TEST_CASE("a socket pair's credentials are this process's") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const Fd a(ends[0]), b(ends[1]);
  const auto peer = PeerOf(a.get());
  REQUIRE(peer.ok());
  CHECK(peer->pid == getpid());
  CHECK(peer->uid == geteuid());
}

TEST_CASE("a process that tells the truth is identified and can be watched") {
  const testing::FakeShim shim({});
  const auto found = Identify(OurPeer(), shim.MakeHello());
  REQUIRE(found.ok());
  CHECK(found->identity.pid == getpid());
  CHECK(found->identity.visible);
  CHECK(found->pidfd);
}

TEST_CASE("a process that lies about itself is refused") {
  const testing::FakeShim shim({});
  const auto refused = [&](auto change) {
    wire::Hello hello = shim.MakeHello();
    change(hello);
    const auto found = Identify(OurPeer(), hello);
    return found.status().code() == absl::StatusCode::kPermissionDenied &&
           ReasonOf(found.status()) == "FALSE_IDENTITY";
  };
  CHECK(refused([](wire::Hello& h) { h.pid = 1; }));
  CHECK(refused([](wire::Hello& h) { h.pid = -5; }));
  CHECK(refused([](wire::Hello& h) { ++h.start_ticks; }));
  CHECK(refused([](wire::Hello& h) { ++h.pid_namespace; }));
  CHECK(refused([](wire::Hello& h) { CopyText(h.boot_id, "yesterday"); }));
}

TEST_CASE("a process that has ended while it connected is not identified") {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const testing::FakeShim shim({});
  Peer peer = OurPeer();
  peer.pid = child;
  CHECK(ReasonOf(Identify(peer, shim.MakeHello()).status()) == "NO_PROCESS");
}

TEST_CASE("a zombie counts as dead") {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  wire::OwnerRecord owner{wire::kOwnerMagic,       1, child, geteuid(), *StartTicks(child),
                          *PidNamespace(getpid()), {}};
  CopyText(owner.boot_id, BootId());
  CHECK(LifeOf(owner) == Life::kAlive);
  kill(child, SIGKILL);
  siginfo_t info;
  waitid(P_PID, id_t(child), &info, WEXITED | WNOWAIT);
  CHECK(LifeOf(owner) == Life::kDead);
  waitpid(child, nullptr, 0);
}

TEST_CASE("a process's command line is its own") {
  CHECK(CommandLine(getpid()).find("daemon_test") != std::string::npos);
  CHECK(CommandLine(1 << 30).empty());
}
