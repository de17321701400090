// Whether the control API's own threads answer.
#pragma once

#include <grpcpp/server.h>

#include "common/deadline.h"

namespace parkade::daemon {

// Asks the server from within the process, so that it takes no descriptor that callers could have
// used up. What it answers is of no matter: nothing is known of such a caller.
bool ServerAnswers(grpc::Server& server, Deadline by);

}  // namespace parkade::daemon
