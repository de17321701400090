// The agent against a daemon that the test plays: what it says, what it does alone.
#include "shim/agent/agent.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "shim/pause/gate.h"
#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

using wire::ProcessState;

constexpr uint64_t kLeaseMs = 300;
Deadline Late() { return Deadline::InMs(10'000); }

// A shim with its agent's thread, which runs as long as the process: one for all tests, each of
// which takes the next connection and leaves the process running.
struct Shim {
  Shim() {
    snprintf(folder, sizeof folder, "/tmp/agent-test-XXXXXX");
    REQUIRE(mkdtemp(folder) != nullptr);
    settings.socket_path = std::string(folder) + "/shim.sock";
    settings.role = "actor";
    settings.rank = 3;
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    snprintf(at.sun_path, sizeof at.sun_path, "%s", settings.socket_path.c_str());
    listener.Reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    REQUIRE(bind(listener.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
    REQUIRE(listen(listener.get(), 4) == 0);
    REQUIRE(operations.Init().ok());
    REQUIRE(wants.Init().ok());
    REQUIRE(turns.Init().ok());
    Gate::SetKnock(turns.fd());
    settings.takes_turns = true;
    p.Allocate(3_MiB);
    REQUIRE(agent.Start().ok());
  }
  // Accepts the next connection and reads its Hello.
  wire::Channel Accept(wire::Hello* hello, bool* with_ledger = nullptr) {
    wire::Channel channel{Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
    wire::Packet packet;
    REQUIRE(channel.Receive(&packet, Late()).ok());
    REQUIRE(packet.Read(hello));
    if (with_ledger != nullptr) {
      *with_ledger = packet.fd_count == 1 && wire::ReadLedgerHeader(packet.fds[0].get()).ok();
    }
    return channel;
  }
  wire::Channel Welcome() {
    wire::Hello hello;
    wire::Channel channel = Accept(&hello);
    auto welcome = wire::Make<wire::Welcome>();
    welcome.version = wire::kVersion;
    welcome.oldest_accepted = wire::kOldestAccepted;
    REQUIRE(channel.Send(welcome, Late()).ok());
    return channel;
  }
  bool Comes(ProcessState state) {
    for (const Deadline by = Late(); p.ledger->state() != state;) {
      if (by.Passed()) return false;
      sched_yield();
    }
    return true;
  }

  char folder[32];
  Fd listener;
  Settings settings;
  Identity identity = *ReadIdentity();
  ParkedProcess p;
  PauseHooks hooks;
  Operations operations{p.freezer, hooks, p.driver, *p.ledger};
  Wants wants;
  TurnWaits turns{true};
  Agent agent{settings, identity, *p.ledger, operations, wants, turns, kLeaseMs * 1'000'000};
};

Shim& TheShim() {
  static Shim* shim = new Shim;
  return *shim;
}

wire::Prepare PrepareFor(uint64_t op_id) {
  auto prepare = wire::Make<wire::Prepare>(op_id);
  prepare.drain_timeout_ns = 5'000'000'000;
  prepare.gate_mode = uint32_t(wire::GateMode::kClosed);
  prepare.gated_work = uint32_t(wire::GatedWork::kBlock);
  prepare.gated_allocations = uint32_t(wire::GatedAllocations::kAsWork);
  return prepare;
}

template <typename M>
wire::Reply Ask(wire::Channel& channel, const M& message) {
  REQUIRE(channel.Send(message, Late()).ok());
  wire::Packet packet;
  wire::Reply reply{};
  REQUIRE(channel.Receive(&packet, Late()).ok());
  REQUIRE(packet.Read(&reply));
  CHECK(reply.header.op_id == message.header.op_id);
  return reply;
}

TEST_CASE("a hello says who this is and carries the ledger") {
  Shim& shim = TheShim();
  wire::Hello hello;
  bool with_ledger = false;
  const wire::Channel channel = shim.Accept(&hello, &with_ledger);
  CHECK(hello.pid == getpid());
  CHECK(hello.rank == 3);
  CHECK(ReadText(hello.role) == "actor");
  CHECK(hello.start_ticks == shim.identity.start_ticks);
  CHECK(with_ledger);
}

TEST_CASE("an allocation that found no room is told, and the answer stands beside its event") {
  Shim& shim = TheShim();
  wire::Channel channel = shim.Welcome();
  const uint64_t event = shim.p.ledger->AddEvent("nothing free");
  shim.wants.Add({event, 1, 4096});
  wire::Packet packet;
  wire::Want want;
  REQUIRE(channel.Receive(&packet, Late()).ok());
  REQUIRE(packet.Read(&want));
  CHECK(want.header.op_id == event);
  CHECK(want.device == 1);
  CHECK(want.bytes == 4096);
  auto holders = wire::Make<wire::Holders>(event);
  CopyText(holders.text, "; held by 7");
  REQUIRE(channel.Send(holders, Late()).ok());
  // One that is no longer kept, and then a request: what came before it has been heard.
  holders.header.op_id = event + 1000;
  REQUIRE(channel.Send(holders, Late()).ok());
  CHECK(Ask(channel, wire::Make<wire::Abort>(9)).code == 0);
  const auto ledger = wire::ReadLedgerHeader(shim.p.ledger->fd());
  REQUIRE(ledger.ok());
  const std::string_view text = ReadText(ledger->text);
  CHECK(text.find("nothing free; held by 7") != text.npos);
  // Only the first few of many at once.
  for (uint64_t i = 0; i < 100; ++i) shim.wants.Add({event, 0, i});
  CHECK(shim.wants.Take().size() <= 4);
}

TEST_CASE(
    "hooks run before a pause and once the process runs again, and one that fails refuses it") {
  struct Log {
    std::string calls;
    int before_returns = 0;
  } log;
  Shim& shim = TheShim();
  const auto add = [&](PauseHooks::When when, PauseHooks::Function function) {
    const int number = shim.hooks.Add(when, "noting", function, &log, 5000);
    REQUIRE(number > 0);
    return number;
  };
  const int before = add(PauseHooks::When::kBeforePause, [](void* user) {
    auto& noted = *static_cast<Log*>(user);
    noted.calls += Gate::IsClosed() ? "closed " : "before ";
    return noted.before_returns;
  });
  const int after = add(PauseHooks::When::kAfterResume, [](void* user) {
    static_cast<Log*>(user)->calls += Gate::IsClosed() ? "closed " : "after ";
    return 7;
  });
  wire::Channel channel = shim.Welcome();
  CHECK(Ask(channel, PrepareFor(21)).code == 0);
  CHECK(Ask(channel, PrepareFor(22)).already == 1);
  CHECK(log.calls == "before ");
  CHECK(Ask(channel, wire::Make<wire::Abort>(23)).code == 0);
  CHECK(log.calls == "before after ");
  CHECK(Ask(channel, wire::Make<wire::Resume>(24)).already == 1);
  CHECK(log.calls == "before after ");
  const auto ledger = wire::ReadLedgerHeader(shim.p.ledger->fd());
  REQUIRE(ledger.ok());
  CHECK(ReadText(ledger->text).find("after a resume: hook noting returned 7") !=
        std::string_view::npos);

  log = {"", 5};
  const wire::Reply refused = Ask(channel, PrepareFor(25));
  CHECK(ReadText(refused.reason) == "HOOK_FAILED");
  CHECK(ReadText(refused.message) == "hook noting returned 5");
  CHECK(wire::ProcessState(refused.state) == ProcessState::kRunning);
  CHECK(log.calls == "before after ");
  CHECK(shim.hooks.Remove(before) == PauseHooks::Removal::kRemoved);
  CHECK(shim.hooks.Remove(after) == PauseHooks::Removal::kRemoved);
}

TEST_CASE("a thread at the gate of a paused process has its turn asked for, of each daemon once") {
  Shim& shim = TheShim();
  REQUIRE(shim.p.Pause(wire::Policy::kHost).result.ok());
  std::thread work([] {
    if (Gate::Enter()) Gate::Leave();
  });
  for (int daemon = 0; daemon < 2; ++daemon) {
    wire::Channel channel = shim.Welcome();
    wire::Packet packet;
    wire::AskTurn ask;
    REQUIRE(channel.Receive(&packet, Late()).ok());
    REQUIRE(packet.Read(&ask));
    CHECK(ask.work == 1);
    CHECK(ask.bytes[0] == 0);
    CHECK(channel.Receive(&packet, Deadline::InMs(300)).error().code == Code::kDeadlineExceeded);
  }
  REQUIRE(shim.p.Resume().result.ok());
  work.join();
}

TEST_CASE("requests are answered in turn, those out of range refused") {
  Shim& shim = TheShim();
  wire::Channel channel = shim.Welcome();
  auto bad = PrepareFor(11);
  bad.gated_work = 9;
  CHECK(ReadText(Ask(channel, bad).reason) == "BAD_MESSAGE");
  auto commit = wire::Make<wire::Commit>(12);
  commit.policy = 77;
  CHECK(ReadText(Ask(channel, commit).reason) == "BAD_MESSAGE");
  commit.policy = uint32_t(wire::Policy::kHost);
  const struct {
    uint64_t block_bytes;
    uint32_t depth;
  } no_requests[] = {{0, 8}, {4096 + 512, 8}, {64_MiB, 8}, {4096, 0}, {4096, 257}};
  for (const auto& [block_bytes, depth] : no_requests) {
    commit.block_bytes = block_bytes;
    commit.depth = depth;
    CHECK(ReadText(Ask(channel, commit).reason) == "BAD_MESSAGE");
  }
  auto resume = wire::Make<wire::Resume>(16);
  resume.tag_count = wire::kMaxTags + 1;
  resume.gate_mode = uint32_t(wire::GateMode::kOpen);
  CHECK(ReadText(Ask(channel, resume).reason) == "BAD_MESSAGE");
  resume.tag_count = 1;
  resume.gate_mode = 9;
  CHECK(ReadText(Ask(channel, resume).reason) == "BAD_MESSAGE");
  resume.gate_mode = uint32_t(wire::GateMode::kOpen);
  resume.undoes_pause = 1;
  CHECK(ReadText(Ask(channel, resume).reason) == "BAD_MESSAGE");
  const auto prepared = Ask(channel, PrepareFor(13));
  CHECK(prepared.code == 0);
  CHECK(prepared.state == uint32_t(ProcessState::kPrepared));
  CHECK(prepared.stats.pausable_bytes >= 3_MiB);
  auto let = wire::Make<wire::LetThrough>(14);
  let.drain_timeout_ns = 5'000'000'000;
  let.arrival_ns = 1'000'000;
  let.calls = 1;
  CHECK(Ask(channel, let).stats.let_through == 0);
  const auto aborted = Ask(channel, wire::Make<wire::Abort>(15));
  CHECK(aborted.state == uint32_t(ProcessState::kRunning));
  CHECK(shim.p.Runs());
}

TEST_CASE("a call is let through while a Prepare waits for one that waits for it") {
  Shim& shim = TheShim();
  wire::Channel channel = shim.Welcome();
  std::atomic<bool> inside{false}, peer_came{false};
  const auto comes = [](auto condition) {
    for (const Deadline by = Late(); !condition() && !by.Passed();) sched_yield();
    return bool(condition());
  };
  std::thread waits([&] {
    const bool in = Gate::Enter();
    inside = in;
    comes([&] { return peer_came.load(); });
    Gate::Leave();
  });
  REQUIRE(comes([&] { return inside.load(); }));
  REQUIRE(channel.Send(PrepareFor(31), Late()).ok());
  REQUIRE(comes([] { return Gate::IsClosed(); }));
  std::thread peer([&] {
    peer_came = Gate::Enter();
    Gate::Leave();
  });
  REQUIRE(comes([] { return Gate::WaitingThreads() == 1; }));
  auto let = wire::Make<wire::LetThrough>(32);
  let.drain_timeout_ns = 5'000'000'000;
  REQUIRE(channel.Send(let, Late()).ok());
  uint64_t answered = 0;
  for (int i = 0; i < 2; ++i) {
    wire::Packet packet;
    wire::Reply reply{};
    REQUIRE(channel.Receive(&packet, Late()).ok());
    REQUIRE(packet.Read(&reply));
    CHECK(reply.code == 0);
    answered += reply.header.op_id;
  }
  CHECK(answered == 31 + 32);
  CHECK(shim.Comes(ProcessState::kPrepared));
  waits.join();
  peer.join();
  // After the answer it does nothing.
  let.header.op_id = 33;
  CHECK(Ask(channel, let).code == 0);
  CHECK(Gate::IsClosed());
  CHECK(Ask(channel, wire::Make<wire::Abort>(34)).state == uint32_t(ProcessState::kRunning));
}

TEST_CASE("the loss of the daemon opens the gate of what was only prepared") {
  Shim& shim = TheShim();
  {
    wire::Channel channel = shim.Welcome();
    REQUIRE(Ask(channel, PrepareFor(21)).code == 0);
  }
  CHECK(shim.Comes(ProcessState::kRunning));
  CHECK(shim.p.BytesRight());
}

TEST_CASE("a daemon that stays silent after a prepare is left") {
  Shim& shim = TheShim();
  wire::Channel channel = shim.Welcome();
  REQUIRE(Ask(channel, PrepareFor(31)).code == 0);
  wire::Packet packet;
  CHECK(channel.Receive(&packet, Late()).error().code == Code::kUnavailable);
  CHECK(shim.Comes(ProcessState::kRunning));
}

TEST_CASE("a refusal is a warning in the ledger, and the process runs on") {
  Shim& shim = TheShim();
  wire::Hello hello;
  {
    wire::Channel channel = shim.Accept(&hello);
    auto refusal = wire::Make<wire::Refusal>();
    CopyText(refusal.message, "for the test");
    REQUIRE(channel.Send(refusal, Late()).ok());
    // Until it comes again, it has read the refusal.
    const wire::Channel next = shim.Accept(&hello);
  }
  const auto ledger = wire::ReadLedgerHeader(shim.p.ledger->fd());
  REQUIRE(ledger.ok());
  CHECK(std::string_view(ledger->text).find("for the test") != std::string_view::npos);
  CHECK(shim.p.Runs());
}

}  // namespace
}  // namespace parkade::shim
