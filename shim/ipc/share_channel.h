// ShareChannel: a connection between two shims, which a forked child lets go of.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "proto/channel.h"
#include "shim/libc/child_sockets.h"

namespace parkade::shim {

class ShareChannel : public wire::Channel {
 public:
  explicit ShareChannel(Fd socket) : Channel(std::move(socket)) { ChildSockets::Add(fd()); }
  ~ShareChannel() {
    if (fd() >= 0) ChildSockets::Remove(fd());
  }
  ShareChannel(ShareChannel&&) = default;
  ShareChannel& operator=(ShareChannel&& other) {
    if (fd() >= 0) ChildSockets::Remove(fd());
    Channel::operator=(std::move(other));
    return *this;
  }
};

// Whether the other side is this user, or root: nobody else gets at this process's memory, or gives
// it any.
inline bool IsSameUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

}  // namespace parkade::shim
