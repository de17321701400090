// Channel: whole packets with descriptors over a Unix SOCK_SEQPACKET connection, between a shim and
// the daemon or between two shims.
#pragma once

#include <cstring>
#include <span>

#include "common/deadline.h"
#include "common/fd.h"
#include "common/result.h"
#include "proto/wire.h"

namespace parkade::wire {

// A received packet: checked for magic, size and type, its descriptors owned.
struct Packet {
  alignas(8) unsigned char bytes[kMaxMessage];
  size_t size = 0;
  Fd fds[kMaxFiles + 1];
  size_t fd_count = 0;

  Header header() const {
    Header h;
    memcpy(&h, bytes, sizeof h);
    return h;
  }
  // The message, if it is of type M; its fields are still unchecked.
  template <typename M>
  bool Read(M* message) const {
    if (size != sizeof(M) || header().type != TypeOf<M>()) return false;
    memcpy(message, bytes, sizeof(M));
    return true;
  }
};

class Channel {
 public:
  explicit Channel(Fd socket) : socket_(std::move(socket)) {}

  // Connects to the socket at `path`, close-on-exec. UNAVAILABLE when nobody listens.
  static Result<Channel> Connect(const char* path);

  int fd() const { return socket_.get(); }

  // Sends one whole message with descriptors; waits for room until `by`. UNAVAILABLE (NO_PEER) when
  // the other side is gone; never raises SIGPIPE. Any thread: packets do not mix.
  template <typename M>
  Result<void> Send(const M& message, Deadline by, std::span<const int> fds = {}) {
    return SendBytes(&message, sizeof message, fds, by);
  }

  // Receives one packet; waits until `by` (DEADLINE_EXCEEDED). UNAVAILABLE (NO_PEER) at the end of
  // the connection; INVALID_ARGUMENT (BAD_MESSAGE) for a packet that is no message of ours, after
  // which the connection is best closed; RESOURCE_EXHAUSTED (DESCRIPTORS) when this process may
  // open too few files, likewise. One receiver at a time.
  Result<void> Receive(Packet* packet, Deadline by);

 private:
  Result<void> SendBytes(const void* bytes, size_t size, std::span<const int> fds, Deadline by);

  Fd socket_;
};

}  // namespace parkade::wire
