// The last step of an error's way out of the daemon.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace parkade::daemon {

// The same code and message; the payload becomes the details that google.rpc clients read.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace parkade::daemon
