// Sends the datagrams. Not by libsystemd: these lines are all that would be used of it, and it has
// no archive that the bundle could link.
#include "daemon/supervisor.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>

#include "common/deadline.h"
#include "common/fd.h"
#include "daemon/words.h"

namespace parkade::daemon {

Supervisor::Supervisor(Environment environment) {
  if (const char* socket = environment("NOTIFY_SOCKET")) socket_ = socket;
  const char* const period = environment("WATCHDOG_USEC");
  const char* const whose = environment("WATCHDOG_PID");
  if (socket_.empty() || period == nullptr) return;
  if (whose != nullptr && ReadNumber<pid_t>(whose) != getpid()) return;
  watchdog_ms_ = ReadNumber<uint64_t>(period).value_or(0) / 1000;
}

void Supervisor::Send(std::string_view lines) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A path, or a name behind a NUL, which is written as '@'.
  if (socket_.empty() || socket_.size() >= sizeof address.sun_path) return;
  socket_.copy(address.sun_path, socket_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const Fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  [[maybe_unused]] const ssize_t sent =
      sendto(fd.get(), lines.data(), lines.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
             reinterpret_cast<sockaddr*>(&address),
             socklen_t(offsetof(sockaddr_un, sun_path) + socket_.size()));
}

void Supervisor::Ready(std::string_view status) const { Send(Cat("READY=1\nSTATUS=", status)); }

void Supervisor::Reloading() const {
  Send(Cat("RELOADING=1\nMONOTONIC_USEC=", MonotonicNs() / 1000,
           "\nSTATUS=reading the configuration again"));
}

void Supervisor::Stopping(std::string_view status) const {
  Send(Cat("STOPPING=1\nSTATUS=", status));
}

void Supervisor::Alive() const { Send("WATCHDOG=1"); }

}  // namespace parkade::daemon
