// Authority: whose connection a call came on.
#include "daemon/authority.h"

#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "daemon/status.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

std::pair<Fd, Fd> Pair() {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

}  // namespace

TEST_CASE("a noted connection is known by its descriptor number") {
  Authority authority("no-such-group");
  auto [ours, theirs] = Pair();
  auto noted = authority.Note(std::move(ours));
  REQUIRE(noted.ok());
  const auto caller = authority.CallerOf("fd:" + std::to_string(noted->get()));
  REQUIRE(caller.ok());
  CHECK(caller->uid == geteuid());
  CHECK(caller->sees_all == (geteuid() == 0));
}

TEST_CASE("a descriptor number is not used again at once") {
  Authority authority("no-such-group");
  int last = -1;
  for (int i = 0; i < 10; ++i) {
    auto [ours, theirs] = Pair();
    auto noted = authority.Note(std::move(ours));
    REQUIRE(noted.ok());
    CHECK(noted->get() > last);
    last = noted->get();
  }
}

TEST_CASE("a peer that was not noted has no rights") {
  Authority authority("no-such-group");
  for (const char* peer : {"fd:3", "fd:", "fd:x", "ipv4:127.0.0.1:5", "unix:", ""}) {
    INFO(peer);
    CHECK(authority.CallerOf(peer).status().code() == absl::StatusCode::kUnauthenticated);
  }
}

TEST_CASE("a certificate's bearer acts as a member of the group if he is named, else not at all") {
  const Authority authority("no-such-group", {"orchestrator", "spiffe://cluster/scheduler"});
  const auto named = authority.CallerOf("ipv4:10.0.0.7:5", {"someone", "orchestrator"});
  REQUIRE(named.ok());
  CHECK(named->sees_all);
  CHECK(named->uid != 0);
  const auto other = authority.CallerOf("ipv4:10.0.0.7:5", {"spiffe://cluster/scheduler"});
  REQUIRE(other.ok());
  // Their request ids are not each other's, nor those of a user.
  CHECK(named->Name() == "certificate orchestrator");
  CHECK(named->Name() != other->Name());
  CHECK(named->Name() != Caller{named->uid}.Name());
  for (const char* name : {"Orchestrator", "orchestrator2", "", "*"}) {
    CHECK(ReasonOf(authority.CallerOf("ipv4:10.0.0.7:5", {name}).status()) == "NOT_A_CLIENT");
  }
  CHECK(ReasonOf(Authority("root").CallerOf("ipv4:1.2.3.4:5", {"root"}).status()) ==
        "NOT_A_CLIENT");
}

TEST_CASE("a member of the group sees every user's processes") {
  // Group 0 is root's; whether this user is in it the kernel decides.
  Authority authority("root");
  auto [ours, theirs] = Pair();
  auto noted = authority.Note(std::move(ours));
  REQUIRE(noted.ok());
  const auto caller = authority.CallerOf("fd:" + std::to_string(noted->get()));
  REQUIRE(caller.ok());
  CHECK(caller->sees_all == (geteuid() == 0 || getegid() == 0));
  Identity foreign;
  foreign.uid = geteuid() + 1;
  CHECK_FALSE(Caller{geteuid(), false}.MaySee(foreign));
  CHECK(Caller{geteuid(), true}.MaySee(foreign));
}
