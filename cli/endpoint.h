// Endpoint: which daemon is asked, checked before it is: this node's socket, or one on the network.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/context.h"

namespace parkade::cli {

struct Endpoint {
  std::string name;  // for messages: the socket's path, or host:port
  bool tls = false;
  std::string certificate, key, ca;  // PEM texts, with tls
};

// INVALID_ARGUMENT for an address without its three files, or one that cannot be read.
// FAILED_PRECONDITION (UNSAFE_DIRECTORY) for a runtime directory or socket that somebody else could
// have put there to answer in the daemon's place.
absl::StatusOr<Endpoint> EndpointOf(const Globals& globals);

}  // namespace parkade::cli
