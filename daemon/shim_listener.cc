// The loop that all shims meet.
#include "daemon/shim_listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/text.h"
#include "daemon/printable.h"
#include "daemon/status.h"
#include "daemon/words.h"
#include "proto/ledger.h"

namespace parkade::daemon {
namespace {

constexpr uint64_t kSocketId = 0;
constexpr uint64_t kStopId = 1;
constexpr uint64_t kPulseId = 2;
// From the end of a connection until the rest of what its program had open is closed as well: an
// exec closes one descriptor after the other.
constexpr uint64_t kLeaverMs = 100;

absl::Status BadHello(std::string_view what) {
  return Fail(absl::StatusCode::kInvalidArgument, "BAD_HELLO", what);
}

// Reading a ledger must never block or fault: only a memfd that cannot shrink will do.
absl::Status CheckLedger(int fd) {
  struct stat s;
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
    return BadHello("the ledger is not a memfd");
  }
  if ((seals & F_SEAL_SHRINK) == 0) return BadHello("the ledger is not sealed against shrinking");
  if (auto header = wire::ReadLedgerHeader(fd); !header.ok()) return BadHello(header.error().what);
  return absl::OkStatus();
}

void SendRefusal(wire::Channel& channel, const absl::Status& why) {
  auto refusal = wire::Make<wire::Refusal>();
  refusal.code = uint32_t(why.code());
  CopyText(refusal.reason, ReasonOf(why));
  CopyText(refusal.message, MessageOf(why));
  // Best effort: the connection ends in any case.
  [[maybe_unused]] const auto sent = channel.Send(refusal, Deadline::InMs(0));
}

Fd OpenSpare() { return Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

int Watch(int epoll, int fd, uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

ShimListener::ShimListener(Fd socket, Registry& registry, Events& events, Hooks hooks,
                           Limits limits)
    : limits_(limits),
      registry_(registry),
      events_(events),
      hooks_(std::move(hooks)),
      socket_(std::move(socket)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      spare_(OpenSpare()) {
  Watch(epoll_.get(), socket_.get(), kSocketId);
  Watch(epoll_.get(), stop_.get(), kStopId);
  Watch(epoll_.get(), pulse_.fd(), kPulseId);
  for (const auto& process : registry_.All()) {
    if (WatchEnd(process)) continue;
    // Its end would never be seen; if it lives, it is known again when it connects.
    Log(LogLevel::kWarning, "cannot watch process %d: errno %d", process->pid(), errno);
    Remove(process);
  }
  thread_ = std::thread([this] { Loop(); });
}

ShimListener::~ShimListener() { Stop(); }

void ShimListener::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(stop_.get(), &one, sizeof one);
  thread_.join();
  while (!connections_.empty()) Close(connections_.begin()->first);
  socket_.Reset();
}

void ShimListener::Loop() {
  std::vector<epoll_event> batch(64);
  for (;;) {
    const int strangers_ms = CloseLateStrangers();
    const int leavers_ms = LookAfterLeavers();
    // Negative: for ever.
    const int wait_ms = strangers_ms < 0 ? leavers_ms
                        : leavers_ms < 0 ? strangers_ms
                                         : std::min(strangers_ms, leavers_ms);
    const int n = epoll_wait(epoll_.get(), batch.data(), int(batch.size()), wait_ms);
    for (int i = 0; i < n; ++i) {
      const uint64_t id = batch[size_t(i)].data.u64;
      if (id == kStopId) return;
      if (id == kPulseId) {
        pulse_.Answer();
      } else if (id == kSocketId) {
        Accept();
      } else if (watched_.contains(id)) {
        OnProcessEnd(id);
      } else if (const auto at = connections_.find(id); at != connections_.end()) {
        // One packet a turn, so that nobody's flood delays the others.
        if (!Read(at->second)) Close(id);
      }
    }
  }
}

void ShimListener::Accept() {
  Fd accepted(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!accepted) {
    if (errno != EMFILE && errno != ENFILE) return;
    // Nobody is served by a connection that stays in the queue and wakes the loop for ever: the
    // spare descriptor lets it be taken and closed.
    if (complaints_.Allows()) {
      Log(LogLevel::kError, "out of file descriptors: a process cannot connect");
    }
    spare_.Reset();
    accepted.Reset(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    accepted.Reset();
    spare_ = OpenSpare();
    return;
  }
  auto peer = PeerOf(accepted.get());
  if (!peer.ok()) return;
  MakeRoomFor(peer->uid);
  if (connections_.size() >= limits_.connections) return;
  const uint64_t id = next_id_++;
  if (Watch(epoll_.get(), accepted.get(), id) != 0) return;
  connections_.emplace(id, Connection{std::make_shared<wire::Channel>(std::move(accepted)),
                                      std::move(*peer), Deadline::InMs(limits_.hello_ms), nullptr});
}

void ShimListener::MakeRoomFor(uid_t uid) {
  size_t strangers = 0;
  auto oldest = connections_.end();
  for (auto at = connections_.begin(); at != connections_.end(); ++at) {
    if (at->second.process != nullptr || at->second.peer.uid != uid) continue;
    if (strangers++ == 0) oldest = at;
  }
  // Not the newcomer: it may be about to say its Hello, the oldest had its time.
  if (strangers >= limits_.strangers_per_uid) Close(oldest->first);
}

// Returns how long the loop may sleep.
int ShimListener::CloseLateStrangers() {
  int wait_ms = -1;
  std::vector<uint64_t> late;
  for (const auto& [id, c] : connections_) {
    if (c.process != nullptr) continue;
    if (c.hello_by.Passed()) {
      late.push_back(id);
    } else {
      const int left_ms = c.hello_by.LeftMs();
      wait_ms = wait_ms < 0 ? left_ms : std::min(wait_ms, left_ms);
    }
  }
  for (const uint64_t id : late) Close(id);
  return wait_ms;
}

bool ShimListener::Read(Connection& connection) {
  wire::Packet packet;
  const auto received = connection.channel->Receive(&packet, Deadline::InMs(0));
  if (!received.ok()) {
    if (received.error().code == Code::kDeadlineExceeded) return true;
    if (received.error().code == Code::kInvalidArgument) OnNoMessage(connection, packet);
    return false;
  }
  if (connection.process == nullptr) return OnHello(connection, packet);
  wire::Want want;
  if (packet.Read(&want)) {
    hooks_.wants(connection.process, want);
    return true;
  }
  wire::AskWarm ask;
  if (packet.Read(&ask)) {
    hooks_.asks_warm(connection.process, ask.host_bytes);
    return true;
  }
  wire::AskTurn turn;
  if (packet.Read(&turn)) {
    if (hooks_.asks_turn) hooks_.asks_turn(connection.process, turn);
    return true;
  }
  wire::WrongBlock wrong;
  if (packet.Read(&wrong)) {
    connection.process->Deliver(connection.channel.get(), wrong);
    return true;
  }
  wire::Reply reply;
  if (!packet.Read(&reply)) {
    if (complaints_.Allows()) {
      Log(LogLevel::kWarning, "process %d sent a message out of turn; closing its connection",
          connection.peer.pid);
    }
    return false;
  }
  connection.process->Deliver(connection.channel.get(), reply);
  return true;
}

void ShimListener::OnNoMessage(const Connection& connection, const wire::Packet& packet) {
  // Every version begins its Hello in the same way, whatever its length.
  uint32_t version;
  const wire::Header header =
      packet.size >= sizeof(wire::Header) ? packet.header() : wire::Header{};
  const bool hello = connection.process == nullptr && header.magic == wire::kMagic &&
                     header.type == wire::Type::kHello &&
                     packet.size >= offsetof(wire::Hello, version) + sizeof version;
  if (hello) {
    memcpy(&version, packet.bytes + offsetof(wire::Hello, version), sizeof version);
    hooks_.turned_away(connection.peer, version, "");
  }
  if (!complaints_.Allows()) return;
  Log(LogLevel::kWarning, "process %d sent a packet that is no message%s; closing its connection",
      connection.peer.pid, hello ? " of this version" : "");
}

bool ShimListener::OnHello(Connection& connection, wire::Packet& packet) {
  wire::Hello hello;
  absl::Status admitted = BadHello("the first message must be a Hello");
  if (packet.Read(&hello)) admitted = Admit(connection, hello, packet);
  if (admitted.ok()) return true;
  if (complaints_.Allows()) {
    Log(LogLevel::kWarning, "refused process %d of uid %u: %s", connection.peer.pid,
        connection.peer.uid, MessageOf(admitted).c_str());
  }
  SendRefusal(*connection.channel, admitted);
  return false;
}

absl::Status ShimListener::Admit(Connection& connection, const wire::Hello& hello,
                                 wire::Packet& packet) {
  if (hello.version < wire::kOldestAccepted || hello.oldest_accepted > wire::kVersion) {
    hooks_.turned_away(connection.peer, hello.version, Printable(ReadText(hello.shim_version)));
    return Fail(absl::StatusCode::kFailedPrecondition, "ABI_MISMATCH",
                Cat("its shim speaks version ", hello.version, ", this daemon accepts ",
                    wire::kOldestAccepted, " to ", wire::kVersion));
  }
  if (packet.fd_count < 1) return BadHello("a Hello comes with a ledger");
  if (auto s = CheckLedger(packet.fds[0].get()); !s.ok()) return s;
  auto identified = Identify(connection.peer, hello);
  if (!identified.ok()) return identified.status();

  auto process = registry_.Known(identified->identity);
  const bool is_new = process == nullptr;
  if (is_new) {
    process =
        std::make_shared<Process>(std::move(identified->identity), std::move(identified->pidfd));
  }
  auto welcome = wire::Make<wire::Welcome>();
  welcome.version = wire::kVersion;
  welcome.oldest_accepted = wire::kOldestAccepted;
  if (auto sent = connection.channel->Send(welcome, Deadline::InMs(0)); !sent.ok()) {
    return ToStatus(sent.error());
  }
  if (is_new && process->pidfd() >= 0 && !WatchEnd(process)) {
    return ToStatus(OsError(errno, "watch process %d", process->pid()));
  }
  // A connection of the same process from before: its end has not been seen yet, and it counts no
  // more.
  for (auto& [id, c] : connections_) {
    if (c.process == process) shutdown(c.channel->fd(), SHUT_RDWR);
  }
  process->Connect(IntroductionOf(hello), connection.channel,
                   std::make_shared<const Fd>(std::move(packet.fds[0])));
  if (const std::string path(ReadText(hello.scratch)); !path.empty()) {
    hooks_.adopt(*process, path, packet.fd_count > 1 ? std::move(packet.fds[1]) : Fd());
  }
  connection.process = process;
  // Only now, so that nobody sees it half made.
  if (is_new) registry_.Add(process);
  events_.Publish(is_new ? Event::Kind::kAppeared : Event::Kind::kState, *process);
  Log(LogLevel::kInfo, "process %d of uid %u %s", process->pid(), process->identity().uid,
      is_new ? "connected" : "connected again");
  return absl::OkStatus();
}

void ShimListener::Close(uint64_t id) {
  const auto node = connections_.extract(id);
  const Connection& connection = node.mapped();
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.channel->fd(), nullptr);
  // Others may hold the channel for a moment longer; the peer shall see the end now.
  shutdown(connection.channel->fd(), SHUT_RDWR);
  const auto& process = connection.process;
  if (process == nullptr) return;
  process->Disconnect(connection.channel.get());
  if (process->connected()) return;
  if (process->pidfd() < 0) {
    Remove(process);
  } else {
    events_.Publish(Event::Kind::kState, *process);
    hooks_.forsaken(process);
    leavers_.push_back({process, Deadline::InMs(kLeaverMs)});
  }
}

int ShimListener::LookAfterLeavers() {
  int wait_ms = -1;
  std::vector<Leaver> later;
  for (Leaver& leaver : leavers_) {
    if (!leaver.look_at.Passed()) {
      wait_ms = std::max(wait_ms, leaver.look_at.LeftMs());
      later.push_back(std::move(leaver));
    } else if (!leaver.process->ended() && leaver.process->HasBecomeAnother()) {
      Log(LogLevel::kInfo, "process %d has become another program", leaver.process->pid());
      Unwatch(leaver.process);
      Remove(leaver.process);
    }
  }
  leavers_ = std::move(later);
  return wait_ms;
}

void ShimListener::Unwatch(const std::shared_ptr<Process>& process) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, process->pidfd(), nullptr);
  std::erase_if(watched_, [&](const auto& watched) { return watched.second == process; });
}

bool ShimListener::WatchEnd(const std::shared_ptr<Process>& process) {
  const uint64_t id = next_id_++;
  if (Watch(epoll_.get(), process->pidfd(), id) != 0) return false;
  watched_.emplace(id, process);
  return true;
}

void ShimListener::OnProcessEnd(uint64_t id) {
  const auto node = watched_.extract(id);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, node.mapped()->pidfd(), nullptr);
  Remove(node.mapped());
}

void ShimListener::Remove(const std::shared_ptr<Process>& process) {
  if (!registry_.Remove(process)) return;
  auto scratch = process->End();
  events_.Publish(Event::Kind::kGone, *process);
  Log(LogLevel::kInfo, "process %d is gone", process->pid());
  if (scratch != nullptr) hooks_.bury(std::move(scratch));
}

}  // namespace parkade::daemon
