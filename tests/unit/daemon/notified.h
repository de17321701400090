// Notified: a supervisor's end of sd_notify's protocol.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <string>

#include "common/fd.h"

namespace parkade::testing {

class Notified {
 public:
  // `name` as NOTIFY_SOCKET has it.
  explicit Notified(const std::string& name) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    if (name[0] == '@') address.sun_path[0] = '\0';
    bound_ = bind(fd_.get(), reinterpret_cast<sockaddr*>(&address),
                  socklen_t(offsetof(sockaddr_un, sun_path) + name.size())) == 0;
  }
  bool bound() const { return bound_; }
  // The oldest message that has not been taken; empty: there is none.
  std::string Take() {
    char text[512];
    const ssize_t n = recv(fd_.get(), text, sizeof text, MSG_DONTWAIT);
    return n <= 0 ? "" : std::string(text, size_t(n));
  }

 private:
  Fd fd_;
  bool bound_ = false;
};

}  // namespace parkade::testing
