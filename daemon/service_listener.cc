// The accept loop of the control socket.
#include "daemon/service_listener.h"

#include <grpcpp/server_posix.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "common/log.h"
#include "daemon/status.h"

namespace parkade::daemon {

ServiceListener::ServiceListener(Fd socket, grpc::Server& server, Authority& authority)
    : socket_(std::move(socket)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      server_(server),
      authority_(authority) {
  thread_ = std::thread([this] { Loop(); });
}

ServiceListener::~ServiceListener() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void ServiceListener::Loop() {
  for (;;) {
    pollfd ready[] = {
        {socket_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}, {pulse_.fd(), POLLIN, 0}};
    if (poll(ready, 3, -1) < 0) continue;
    if (ready[1].revents != 0) return;
    if (ready[2].revents != 0) pulse_.Answer();
    if (ready[0].revents == 0) continue;
    Fd accepted(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!accepted) {
      // Out of descriptors: the connection stays in the queue, and the loop must not spin on it.
      if (errno == EMFILE || errno == ENFILE) poll(&ready[1], 1, 100);
      continue;
    }
    auto noted = authority_.Note(std::move(accepted));
    if (!noted.ok()) {
      Log(LogLevel::kWarning, "a control connection is refused: %s",
          MessageOf(noted.status()).c_str());
      continue;
    }
    grpc::AddInsecureChannelFromFd(&server_, noted->Release());
  }
}

}  // namespace parkade::daemon
