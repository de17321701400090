// Sends and receives whole packets with descriptors.
#include "proto/channel.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace parkade::wire {
namespace {

// Control data for the most descriptors that a packet may carry.
union Control {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int) * (kMaxFiles + 1))];
};

Result<void> WaitFor(int fd, short events, Deadline by) {
  for (;;) {
    pollfd p{fd, events, 0};
    const int n = poll(&p, 1, by.LeftMs());
    if (n > 0) return {};
    if (n == 0)
      return MakeError(Code::kDeadlineExceeded, "TIMED_OUT", "peer did not answer in time");
    if (errno != EINTR) return OsError(errno, "poll");
  }
}

void TakeDescriptors(msghdr& m, Packet* packet) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      Fd owned(fd);
      if (packet->fd_count < kMaxFiles + 1) packet->fds[packet->fd_count++] = std::move(owned);
    }
  }
}

}  // namespace

Result<Channel> Channel::Connect(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof address.sun_path) {
    return MakeError(Code::kInvalidArgument, "BAD_PATH", "socket path is too long: %s", path);
  }
  strcpy(address.sun_path, path);
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return OsError(errno, "socket");
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    Error e = OsError(errno, "connect to %s", path);
    if (errno == ENOENT || errno == EAGAIN) e.code = Code::kUnavailable;
    return e;
  }
  return Channel(std::move(socket));
}

Result<void> Channel::SendBytes(const void* bytes, size_t size, std::span<const int> fds,
                                Deadline by) {
  if (fds.size() > kMaxFiles + 1) {
    return MakeError(Code::kInvalidArgument, "BAD_MESSAGE", "%zu descriptors in one message",
                     fds.size());
  }
  iovec io{const_cast<void*>(bytes), size};
  msghdr m{};
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  Control control{};
  if (!fds.empty()) {
    m.msg_control = control.bytes;
    m.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  for (;;) {
    if (sendmsg(socket_.get(), &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return {};
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return OsError(errno, "send to peer");
    if (auto r = WaitFor(socket_.get(), POLLOUT, by); !r.ok()) return r;
  }
}

Result<void> Channel::Receive(Packet* packet, Deadline by) {
  packet->size = 0;
  for (Fd& fd : packet->fds) fd.Reset();
  packet->fd_count = 0;
  iovec io{packet->bytes, sizeof packet->bytes};
  Control control{};
  msghdr m{};
  ssize_t n;
  for (;;) {
    m = {};
    m.msg_iov = &io;
    m.msg_iovlen = 1;
    m.msg_control = control.bytes;
    // Not all of the buffer: its padding would take one descriptor too many.
    m.msg_controllen = CMSG_LEN(sizeof(int) * (kMaxFiles + 1));
    n = recvmsg(socket_.get(), &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n >= 0) break;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return OsError(errno, "receive from peer");
    if (auto r = WaitFor(socket_.get(), POLLIN, by); !r.ok()) return r;
  }
  TakeDescriptors(m, packet);
  if (n == 0) return MakeError(Code::kUnavailable, "NO_PEER", "peer closed the connection");
  packet->size = size_t(n);
  const bool cut = (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  const Header h = packet->size >= sizeof(Header) ? packet->header() : Header{};
  if ((m.msg_flags & MSG_CTRUNC) != 0 && packet->fd_count <= kMaxFiles) {
    return MakeError(Code::kResourceExhausted, "DESCRIPTORS",
                     "no descriptor is left for what a packet brought (RLIMIT_NOFILE)");
  }
  if (cut || h.magic != kMagic || h.size != packet->size || SizeOf(h.type) != packet->size) {
    return MakeError(Code::kInvalidArgument, "BAD_MESSAGE", "packet of %zd bytes is no message", n);
  }
  return {};
}

}  // namespace parkade::wire
