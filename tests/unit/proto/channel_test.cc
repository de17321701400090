// Packets across a socket pair: whole messages, descriptors, and everything a peer can get wrong.
#include "proto/channel.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "common/text.h"
#include "tests/unit/emulated.h"

namespace parkade::wire {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
    a.emplace(Fd(fds[0]));
    b.emplace(Fd(fds[1]));
  }
  void SendRaw(const void* bytes, size_t size) {
    REQUIRE(send(a->fd(), bytes, size, MSG_NOSIGNAL) == ssize_t(size));
  }
  Result<void> Receive() { return b->Receive(&packet, Deadline::InMs(1000)); }

  std::optional<Channel> a, b;
  Packet packet;
};

TEST_CASE("a message arrives as it was sent") {
  Pair pair;
  auto sent = Make<Commit>(42);
  sent.host_bytes = 0x0102030405060708;
  sent.policy = uint32_t(Policy::kAuto);
  sent.tag_count = 1;
  CopyText(sent.tags[0].tag, "weights");
  CopyText(sent.scratch, "/scratch/x");
  REQUIRE(pair.a->Send(sent, Deadline::InMs(1000)).ok());
  REQUIRE(pair.Receive().ok());
  Commit got;
  REQUIRE(pair.packet.Read(&got));
  CHECK(memcmp(&got, &sent, sizeof got) == 0);
  Prepare other;
  CHECK_FALSE(pair.packet.Read(&other));
}

TEST_CASE("descriptors arrive open and close-on-exec, and are closed with the packet") {
  Pair pair;
  int pipe_fds[2];
  REQUIRE(pipe(pipe_fds) == 0);
  const Fd read_end(pipe_fds[0]);
  {
    const Fd write_end(pipe_fds[1]);
    const int fds[] = {write_end.get()};
    REQUIRE(pair.a->Send(Make<Resume>(1), Deadline::InMs(1000), fds).ok());
  }
  REQUIRE(pair.Receive().ok());
  REQUIRE(pair.packet.fd_count == 1);
  CHECK((fcntl(pair.packet.fds[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
  REQUIRE(write(pair.packet.fds[0].get(), "x", 1) == 1);
  char c;
  CHECK(read(read_end.get(), &c, 1) == 1);
  REQUIRE(pair.a->Send(Make<Resume>(2), Deadline::InMs(1000)).ok());
  REQUIRE(pair.Receive().ok());
  CHECK(pair.packet.fd_count == 0);
  CHECK(read(read_end.get(), &c, 1) == 0);  // the write end is gone
}

TEST_CASE("a wait for a silent peer ends at the deadline") {
  Pair pair;
  const auto r = pair.b->Receive(&pair.packet, Deadline::InMs(20));
  REQUIRE_FALSE(r.ok());
  CHECK(r.error().code == Code::kDeadlineExceeded);
}

TEST_CASE("a peer that does not read makes a send end at the deadline") {
  Pair pair;
  Result<void> r;
  const auto message = Make<Commit>();
  for (int i = 0; i < 10'000 && r.ok(); ++i) r = pair.a->Send(message, Deadline::InMs(20));
  REQUIRE_FALSE(r.ok());
  CHECK(r.error().code == Code::kDeadlineExceeded);
}

TEST_CASE("the end of a connection is an error, without a signal") {
  Pair pair;
  pair.a.reset();
  const auto received = pair.Receive();
  REQUIRE_FALSE(received.ok());
  CHECK(received.error().code == Code::kUnavailable);
  const auto sent = pair.b->Send(Make<Resume>(), Deadline::InMs(1000));
  REQUIRE_FALSE(sent.ok());
  CHECK(sent.error().code == Code::kUnavailable);
}

TEST_CASE("packets that are no messages are refused and the next one is read") {
  Pair pair;
  auto good = Make<Resume>(9);
  SECTION("short") { pair.SendRaw(&good, 7); }
  SECTION("header alone") { pair.SendRaw(&good, sizeof(Header)); }
  SECTION("one byte too long") {
    unsigned char longer[sizeof good + 1] = {};
    memcpy(longer, &good, sizeof good);
    pair.SendRaw(longer, sizeof longer);
  }
  SECTION("wrong magic") {
    auto bad = good;
    bad.header.magic ^= 1;
    pair.SendRaw(&bad, sizeof bad);
  }
  SECTION("unknown type") {
    auto bad = good;
    bad.header.type = Type(99);
    pair.SendRaw(&bad, sizeof bad);
  }
  SECTION("another type's size") {
    auto bad = good;
    bad.header.type = Type::kPrepare;
    pair.SendRaw(&bad, sizeof bad);
  }
  SECTION("a size that lies") {
    auto bad = good;
    bad.header.size = 4;
    pair.SendRaw(&bad, sizeof bad);
  }
  SECTION("larger than any message") {
    const std::string big(kMaxMessage + 1, 'x');
    pair.SendRaw(big.data(), big.size());
  }
  const auto r = pair.Receive();
  REQUIRE_FALSE(r.ok());
  CHECK(std::string(r.error().reason) == "BAD_MESSAGE");
  pair.SendRaw(&good, sizeof good);
  CHECK(pair.Receive().ok());
}

TEST_CASE("a packet may carry so many descriptors, and not one more") {
  if (EmulatorLacks("the mark of a list of descriptors that was cut (MSG_CTRUNC)")) return;
  for (const size_t count : {kMaxFiles + 1, kMaxFiles + 2}) {
    Pair pair;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * (kMaxFiles + 2))] = {};
    auto message = Make<Resume>(1);
    iovec io{&message, sizeof message};
    msghdr m{};
    m.msg_iov = &io;
    m.msg_iovlen = 1;
    m.msg_control = control;
    m.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * count);
    for (size_t i = 0; i < count; ++i) {
      const int fd = pair.a->fd();
      memcpy(CMSG_DATA(c) + i * sizeof fd, &fd, sizeof fd);
    }
    REQUIRE(sendmsg(pair.a->fd(), &m, MSG_NOSIGNAL) == ssize_t(sizeof message));
    const auto r = pair.Receive();
    CHECK(r.ok() == (count == kMaxFiles + 1));
    if (r.ok()) CHECK(pair.packet.fd_count == count);
  }
}

TEST_CASE("connecting where nobody listens says so") {
  const auto r = Channel::Connect("/nonexistent/shim.sock");
  REQUIRE_FALSE(r.ok());
  CHECK(r.error().code == Code::kUnavailable);
  const auto longer = Channel::Connect(std::string(200, 'x').c_str());
  REQUIRE_FALSE(longer.ok());
  CHECK(longer.error().code == Code::kInvalidArgument);
}

}  // namespace
}  // namespace parkade::wire
