// ShareChannel: a connection between two shims, which a forked child lets go of.
#pragma once

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

}  // namespace parkade::shim
