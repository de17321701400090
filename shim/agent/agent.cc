// Connects, says hello, and passes requests and replies until the connection ends; then again.
#include "shim/agent/agent.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <iterator>
#include <memory>
#include <span>

#include "common/log.h"
#include "common/text.h"
#include "shim/pause/gate.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kAnswerMs = 5000;  // for the daemon to welcome us or to take a reply
constexpr uint64_t kFirstRetryMs = 100;
constexpr uint64_t kLastRetryMs = 1000;
constexpr int kCounterMs = 200;  // how often the ledger's slow counters are brought up to date

void Sleep(uint64_t ms) {
  const timespec t{time_t(ms / 1000), long(ms % 1000 * 1'000'000)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
}

}  // namespace

Agent::Agent(const Settings& settings, const Identity& identity, LedgerWriter& ledger,
             Operations& operations, Wants& wants, TurnWaits& turns, uint64_t prepared_lease_ns)
    : settings_(settings),
      identity_(identity),
      ledger_(ledger),
      operations_(operations),
      wants_(wants),
      turns_(turns),
      prepared_lease_ns_(prepared_lease_ns),
      prewarm_(settings.prewarm),
      asker_(turns) {}

Result<void> Agent::Start() {
  auto thread = Thread::Start("parkade-agent", Work, this);
  if (!thread.ok()) return thread.error();
  thread_ = std::move(*thread);
  return {};
}

void Agent::AbandonAfterFork() {
  const int socket = socket_.load(std::memory_order_relaxed);
  if (socket >= 0) close(socket);
}

void Agent::Work(void* self) { static_cast<Agent*>(self)->Run(); }

void Agent::Run() {
  for (uint64_t retry_ms = kFirstRetryMs;;) {
    auto channel = Join();
    if (channel.ok()) {
      retry_ms = kFirstRetryMs;
      socket_.store(channel->fd(), std::memory_order_relaxed);
      Serve(*channel);
      asker_.Left();
      socket_.store(-1, std::memory_order_relaxed);
      operations_.Settle();
    } else if (channel.error().code != Code::kUnavailable) {
      // A daemon that refuses us is worth a line in `show`; one that is not there is not.
      ledger_.AddWarning(channel.error().what);
    }
    Sleep(retry_ms);
    retry_ms = retry_ms * 2 < kLastRetryMs ? retry_ms * 2 : kLastRetryMs;
    RefreshCounters();
  }
}

Result<wire::Channel> Agent::Join() {
  auto channel = wire::Channel::Connect(settings_.socket_path.c_str());
  if (!channel.ok()) return channel.error();
  auto hello = wire::Make<wire::Hello>();
  hello.version = wire::kVersion;
  hello.oldest_accepted = wire::kOldestAccepted;
  hello.pid = identity_.pid;
  hello.rank = settings_.rank;
  hello.start_ticks = identity_.start_ticks;
  hello.pid_namespace = identity_.pid_namespace;
  hello.default_policy = uint32_t(settings_.policy);
  CopyText(hello.boot_id, identity_.boot_id);
  CopyText(hello.job, settings_.job);
  CopyText(hello.role, settings_.role);
  CopyText(hello.cell, settings_.cell);
  CopyText(hello.shim_version, PARKADE_VERSION);
  const Operations::Scratch scratch = operations_.scratch();
  CopyText(hello.scratch, scratch.path);
  CopyText(hello.wanted_scratch_base, settings_.scratch_base);
  hello.scratch_base_yields = settings_.scratch_base_yields ? 1 : 0;
  hello.takes_turns = settings_.takes_turns ? 1 : 0;
  const int fds[] = {ledger_.fd(), scratch.lock.get()};
  const std::span sent(fds, scratch.lock ? 2 : 1);
  const Deadline by = Deadline::InMs(kAnswerMs);
  if (auto r = channel->Send(hello, by, sent); !r.ok()) return r.error();
  wire::Packet packet;
  if (auto r = channel->Receive(&packet, by); !r.ok()) return r.error();
  wire::Refusal refusal;
  if (packet.Read(&refusal)) {
    return MakeError(Code::kFailedPrecondition, "REFUSED", "the daemon refuses this process: %.*s",
                     int(ReadText(refusal.message).size()), refusal.message);
  }
  wire::Welcome welcome;
  if (!packet.Read(&welcome) || welcome.version < wire::kOldestAccepted) {
    return MakeError(Code::kFailedPrecondition, "ABI_MISMATCH",
                     "the daemon speaks another version of the wire than this shim (%u)",
                     wire::kVersion);
  }
  prewarm_.Forget();
  asker_.Joined();
  return channel;
}

void Agent::Serve(wire::Channel& channel) {
  uint64_t prepared_since_ns = 0;  // 0: not prepared
  for (;;) {
    pollfd polled[] = {{channel.fd(), POLLIN, 0},
                       {operations_.replies_fd(), POLLIN, 0},
                       {wants_.fd(), POLLIN, 0},
                       {turns_.fd(), POLLIN, 0}};
    if (poll(polled, std::size(polled), kCounterMs) < 0 && errno != EINTR) return;
    RefreshCounters();
    if (!AskForMemory(channel).ok()) return;
    if (polled[3].revents != 0) turns_.Empty();
    if (!AskForTurn(channel).ok()) return;
    if (polled[1].revents != 0 && !SendReplies(channel).ok()) return;
    if (polled[2].revents != 0 && !SendWants(channel).ok()) return;
    if (ledger_.state() != wire::ProcessState::kPrepared) {
      prepared_since_ns = 0;
    } else if (prepared_since_ns == 0) {
      prepared_since_ns = MonotonicNs();
    } else if (MonotonicNs() - prepared_since_ns > prepared_lease_ns_) {
      return;  // hang up: Settle opens the gate
    }
    if (polled[0].revents == 0) continue;
    auto packet = std::make_unique<wire::Packet>();
    if (!channel.Receive(packet.get(), Deadline::InMs(kAnswerMs)).ok()) return;
    prepared_since_ns = 0;  // it is not silent
    const wire::Header header = packet->header();
    wire::Holders holders;
    if (packet->Read(&holders)) {
      ledger_.AddToEvent(header.op_id, ReadText(holders.text));
      continue;
    }
    wire::NoTurn no;
    if (packet->Read(&no)) {
      TellRefusal(no);
      continue;
    }
    if (auto r = operations_.Queue(std::move(packet)); !r.ok()) {
      Log(LogLevel::kError, "%s", r.error().what);
      if (header.type == wire::Type::kAbort) return;  // Settle aborts on this thread
      const wire::Reply refused = operations_.Refusal(header.op_id, r.error());
      if (!channel.Send(refused, Deadline::InMs(kAnswerMs)).ok()) return;
    }
  }
}

Result<void> Agent::SendReplies(wire::Channel& channel) {
  const std::vector<wire::Reply> replies = operations_.TakeReplies();
  for (const wire::WrongBlock& wrong : operations_.TakeWrongBlocks()) {
    if (auto r = channel.Send(wrong, Deadline::InMs(kAnswerMs)); !r.ok()) return r;
  }
  for (const wire::Reply& reply : replies) {
    if (auto r = channel.Send(reply, Deadline::InMs(kAnswerMs)); !r.ok()) return r;
  }
  return {};
}

Result<void> Agent::SendWants(wire::Channel& channel) {
  for (const Wants::Want& want : wants_.Take()) {
    auto message = wire::Make<wire::Want>(want.event);
    message.device = want.device;
    message.bytes = want.bytes;
    if (auto r = channel.Send(message, Deadline::InMs(kAnswerMs)); !r.ok()) return r;
  }
  return {};
}

Result<void> Agent::AskForMemory(wire::Channel& channel) {
  const Bytes due = prewarm_.Due(ledger_.requested(), MonotonicNs());
  if (due == 0) return {};
  auto ask = wire::Make<wire::AskWarm>();
  ask.host_bytes = due;
  return channel.Send(ask, Deadline::InMs(kAnswerMs));
}

Result<void> Agent::AskForTurn(wire::Channel& channel) {
  const bool at_gate = ledger_.state() == wire::ProcessState::kPaused && Gate::IsClosed() &&
                       Gate::WaitingThreads() != 0;
  const auto ask = asker_.Due(at_gate, MonotonicNs());
  if (!ask) return {};
  return channel.Send(*ask, Deadline::InMs(kAnswerMs));
}

void Agent::TellRefusal(const wire::NoTurn& no) {
  if (!asker_.Refused(no, MonotonicNs())) return;
  ledger_.AddEvent("no turn for an allocation without room: " + std::string(ReadText(no.message)));
}

void Agent::RefreshCounters() { ledger_.SetGatedThreads(Gate::WaitingThreads()); }

}  // namespace parkade::shim
