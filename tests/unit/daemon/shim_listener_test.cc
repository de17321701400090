// The listener against clients that are late, short, long, false, many or gone.
#include "daemon/shim_listener.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "common/text.h"
#include "daemon/runtime_dir.h"
#include "daemon/status.h"
#include "daemon/unmanaged.h"
#include "tests/unit/daemon/fake_shim.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;
using parkade::testing::FakeShim;
using parkade::testing::TestDir;

namespace {

// None but that which notes whom the listener has turned away.
ShimListener::Hooks HooksOf(Unmanaged& unmanaged) {
  return {[](auto&, const auto&, auto) {},
          [](auto) {},
          [](auto) {},
          [](auto, const auto&) {},
          [](auto, Bytes) {},
          [&unmanaged](const Peer& peer, uint32_t version, const std::string& shim) {
            unmanaged.TurnedAway(peer, version, shim);
          }};
}

struct Served {
  explicit Served(ShimListener::Limits limits = {})
      : path(dir / "shim.sock"),
        listener(*ListenAt(path, SOCK_SEQPACKET), registry, events, HooksOf(unmanaged), limits) {}

  bool WaitForProcesses(size_t count) {
    for (const Deadline by = Deadline::InMs(5000); !by.Passed(); sched_yield()) {
      if (registry.All().size() == count) return true;
    }
    return false;
  }
  // Whoever else misbehaves: a good shim still gets in.
  bool Serves() {
    FakeShim shim({});
    return shim.Connect(path).ok();
  }

  TestDir dir;
  const std::string path;
  Unmanaged unmanaged;
  Registry registry;
  Events events;
  ShimListener listener;
};

Fd RawClient(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  REQUIRE(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return socket;
}

// The daemon ends the connection within 5 s.
bool IsClosed(const Fd& socket) {
  for (;;) {
    pollfd p{socket.get(), POLLIN, 0};
    if (poll(&p, 1, 5000) <= 0) return false;
    char bytes[4096];
    if (recv(socket.get(), bytes, sizeof bytes, 0) <= 0) return true;
  }
}

void SendWith(const Fd& socket, const void* bytes, size_t size, const std::vector<int>& fds) {
  iovec io{const_cast<void*>(bytes), size};
  std::vector<char> control(CMSG_SPACE(sizeof(int) * fds.size()));
  msghdr m{};
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  if (!fds.empty()) {
    m.msg_control = control.data();
    m.msg_controllen = control.size();
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  }
  REQUIRE(sendmsg(socket.get(), &m, MSG_NOSIGNAL) == ssize_t(size));
}

// Sends the Hello with these descriptors and reads the refusal's reason.
std::string RefusalOf(const std::string& path, const wire::Hello& hello,
                      const std::vector<int>& fds) {
  wire::Channel channel(RawClient(path));
  REQUIRE(channel.Send(hello, Deadline::InMs(1000), fds).ok());
  wire::Packet packet;
  if (!channel.Receive(&packet, Deadline::InMs(5000)).ok()) return "closed";
  wire::Refusal refusal;
  if (!packet.Read(&refusal)) return "welcome";
  return std::string(ReadText(refusal.reason));
}

size_t OpenDescriptors() { return testing::Entries("/proc/self/fd"); }

}  // namespace

TEST_CASE("a good shim is welcomed, listed, and gone from the list of the connected") {
  Served served;
  FakeShim shim({.allocations = {{1_MiB}}, .job = "train", .role = "actor", .rank = 3});
  REQUIRE(shim.Connect(served.path).ok());
  REQUIRE(served.WaitForProcesses(1));
  const auto view = served.registry.All()[0]->View();
  CHECK(view.identity.pid == getpid());
  CHECK(view.introduction.job == "train");
  CHECK(view.introduction.rank == 3);
  CHECK(view.connected);
  shim.Disconnect();
  for (const Deadline by = Deadline::InMs(5000); !by.Passed(); sched_yield()) {
    if (!served.registry.All()[0]->connected()) break;
  }
  CHECK_FALSE(served.registry.All()[0]->connected());
  CHECK(served.registry.All().size() == 1);  // it lives
}

TEST_CASE("a process that connects again replaces its first connection") {
  Served served;
  FakeShim first({.job = "first"});
  REQUIRE(first.Connect(served.path).ok());
  FakeShim second({.job = "second"});
  REQUIRE(second.Connect(served.path).ok());
  REQUIRE(served.registry.All().size() == 1);
  const auto process = served.registry.All()[0];
  // It takes its place a moment after its Welcome.
  for (const Deadline by = Deadline::InMs(5000); !by.Passed(); sched_yield()) {
    if (process->View().introduction.job == "second") break;
  }
  CHECK(process->View().introduction.job == "second");
  first.Disconnect();
  CHECK(served.registry.All()[0]->connected());
}

TEST_CASE("packets that are no Hello end their own connection only") {
  Served served;
  std::vector<std::vector<char>> packets;
  packets.push_back({'x'});
  packets.push_back(std::vector<char>(sizeof(wire::Hello), 0));
  packets.push_back(std::vector<char>(5000, 'x'));
  const auto early = wire::Make<wire::Reply>(7);
  packets.push_back({reinterpret_cast<const char*>(&early),
                     reinterpret_cast<const char*>(&early) + sizeof early});
  wire::Hello cut = wire::Make<wire::Hello>();
  packets.push_back(
      {reinterpret_cast<const char*>(&cut), reinterpret_cast<const char*>(&cut) + sizeof cut - 8});
  for (const auto& bytes : packets) {
    INFO(bytes.size());
    const Fd client = RawClient(served.path);
    SendWith(client, bytes.data(), bytes.size(), {});
    CHECK(IsClosed(client));
  }
  CHECK(served.registry.All().empty());
  CHECK(served.Serves());
}

TEST_CASE("a Hello with a false identity, version or ledger is refused with the reason") {
  Served served;
  FakeShim shim({.allocations = {{1_MiB}}});
  const std::vector<int> ledger{shim.ledger()};
  wire::Hello hello = shim.MakeHello();
  ++hello.start_ticks;
  CHECK(RefusalOf(served.path, hello, ledger) == "FALSE_IDENTITY");
  hello = shim.MakeHello();
  hello.pid = 1;
  CHECK(RefusalOf(served.path, hello, ledger) == "FALSE_IDENTITY");
  hello = shim.MakeHello();
  hello.oldest_accepted = hello.version = 99;
  CHECK(RefusalOf(served.path, hello, ledger) == "ABI_MISMATCH");
  hello = shim.MakeHello();
  hello.version = hello.oldest_accepted = 0;
  CHECK(RefusalOf(served.path, hello, ledger) == "ABI_MISMATCH");
  hello = shim.MakeHello();
  CHECK(RefusalOf(served.path, hello, {}) == "BAD_HELLO");
  const Fd null(open("/dev/zero", O_RDWR | O_CLOEXEC));
  CHECK(RefusalOf(served.path, hello, {null.get()}) == "BAD_HELLO");
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Fd a(ends[0]), b(ends[1]);
  CHECK(RefusalOf(served.path, hello, {a.get()}) == "BAD_HELLO");
  const Fd unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(unsealed.get(), 4096) == 0);
  CHECK(RefusalOf(served.path, hello, {unsealed.get()}) == "BAD_HELLO");
  const Fd empty(memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(fcntl(empty.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  CHECK(RefusalOf(served.path, hello, {empty.get()}) == "BAD_HELLO");
  CHECK(served.registry.All().empty());
  CHECK(RefusalOf(served.path, hello, ledger) == "welcome");
}

TEST_CASE("a shim of another version is turned away, and whoever names it hears why") {
  Served served;
  const Caller root{0, true};
  FakeShim shim({});
  CHECK(ReasonOf(served.unmanaged.Explain(root, getpid())) == "NOT_INSTRUMENTED");
  wire::Hello hello = shim.MakeHello();
  hello.oldest_accepted = hello.version = 99;
  CopyText(hello.shim_version, "9.9\033");
  REQUIRE(RefusalOf(served.path, hello, {shim.ledger()}) == "ABI_MISMATCH");
  const auto why = served.unmanaged.Explain(root, getpid());
  CHECK(ReasonOf(why) == "ABI_MISMATCH");
  CHECK(MetadataOf(why)["version"] == "99");
  CHECK(MetadataOf(why)["shim_version"] == "9.9?");
  CHECK(MetadataOf(why)["pid"] == std::to_string(getpid()));

  // A later one may have a Hello of another length.
  const Fd client = RawClient(served.path);
  std::vector<char> longer(sizeof hello + 64);
  hello.header.size = uint32_t(longer.size());
  hello.version = 100;
  memcpy(longer.data(), &hello, sizeof hello);
  SendWith(client, longer.data(), longer.size(), {});
  REQUIRE(IsClosed(client));
  CHECK(MetadataOf(served.unmanaged.Explain(root, getpid()))["version"] == "100");
  CHECK(served.registry.All().empty());
}

TEST_CASE("descriptors that nobody asked for are closed") {
  Served served;
  const size_t before = OpenDescriptors();
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (int i = 0; i < 20; ++i) {
    const Fd client = RawClient(served.path);
    const char byte = 'x';
    SendWith(client, &byte, 1, std::vector<int>(i % 2 == 0 ? 200 : 9, null.get()));
    REQUIRE(IsClosed(client));
  }
  REQUIRE(served.Serves());
  for (const Deadline by = Deadline::InMs(5000); !by.Passed(); sched_yield()) {
    if (OpenDescriptors() <= before + 3) break;
  }
  // The one opened above, and the pidfd of this process, which lives on.
  CHECK(OpenDescriptors() <= before + 3);
}

TEST_CASE("a client that says nothing is closed in time") {
  Served served({.hello_ms = 50});
  const Fd silent = RawClient(served.path);
  CHECK(IsClosed(silent));
  CHECK(served.Serves());
}

TEST_CASE("many silent clients of one user do not grow without end") {
  Served served({.hello_ms = 60'000, .strangers_per_uid = 8});
  std::vector<Fd> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(RawClient(served.path));
  // The oldest make room; a good shim among them is served at once.
  const uint64_t begin = MonotonicNs();
  CHECK(served.Serves());
  CHECK(MonotonicNs() - begin < 1'000'000'000);
  for (size_t i = 0; i < 32; ++i) CHECK(IsClosed(clients[i]));
}

TEST_CASE("what strangers send wrong fills no log") {
  LogLimit limit;
  int lines = 0;
  for (int i = 0; i < 1000; ++i) lines += limit.Allows() ? 1 : 0;
  CHECK(lines == 10);
}

TEST_CASE("messages out of turn after the Hello end the connection") {
  Served served;
  FakeShim shim({});
  wire::Channel channel(RawClient(served.path));
  const int fds[] = {shim.ledger()};
  REQUIRE(channel.Send(shim.MakeHello(), Deadline::InMs(1000), fds).ok());
  wire::Packet packet;
  REQUIRE(channel.Receive(&packet, Deadline::InMs(5000)).ok());
  // A reply to nothing is dropped, a second Hello is not.
  REQUIRE(channel.Send(wire::Make<wire::Reply>(5), Deadline::InMs(1000)).ok());
  REQUIRE(channel.Send(shim.MakeHello(), Deadline::InMs(1000), fds).ok());
  CHECK_FALSE(channel.Receive(&packet, Deadline::InMs(5000)).ok());
  CHECK(served.Serves());
}

TEST_CASE("a ledger that turns bad afterwards harms nobody") {
  Served served;
  FakeShim shim({.allocations = {{1_MiB}}});
  REQUIRE(shim.Connect(served.path).ok());
  REQUIRE(served.WaitForProcesses(1));
  const uint64_t huge = UINT64_MAX;
  REQUIRE(pwrite(shim.ledger(), &huge, sizeof huge, offsetof(wire::LedgerHeader, used_slots)) == 8);
  const auto process = served.registry.All()[0];
  CHECK_FALSE(process->View().ledger.has_value());
  CHECK(ReasonOf(process->Ledger().status()) == "BAD_LEDGER");
  CHECK(served.Serves());
}

TEST_CASE("a process of an earlier daemon whose end cannot be seen is not kept") {
  const TestDir dir;
  Registry registry;
  Events events;
  Identity identity;
  identity.pid = identity.own_pid = 4711;
  // A plain file is nothing that epoll watches.
  registry.Add(std::make_shared<Process>(identity, Fd(open(dir.path().c_str(), O_RDONLY))));
  const auto watcher = events.Watch();
  Unmanaged unmanaged;
  const ShimListener listener(*ListenAt(dir / "shim.sock", SOCK_SEQPACKET), registry, events,
                              HooksOf(unmanaged), {});
  CHECK(registry.All().empty());
  const auto event = watcher->Next(Deadline::InMs(1000));
  REQUIRE(event.has_value());
  CHECK(event->kind == Event::Kind::kGone);
}
