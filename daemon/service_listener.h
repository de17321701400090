// ServiceListener: accepts control connections itself, so that their users are known, and hands
// them to gRPC.
#pragma once

#include <grpcpp/server.h>

#include <thread>

#include "common/fd.h"
#include "daemon/authority.h"
#include "daemon/pulse.h"

namespace parkade::daemon {

class ServiceListener {
 public:
  // `server` and `authority` outlive it. Accepts until it is destroyed.
  ServiceListener(Fd socket, grpc::Server& server, Authority& authority);
  ~ServiceListener();

  // Whether its thread comes round by then.
  bool IsAlive(Deadline by) const { return pulse_.Beats(by); }

 private:
  void Loop();

  Fd socket_;
  Fd stop_;
  mutable Pulse pulse_;
  grpc::Server& server_;
  Authority& authority_;
  std::thread thread_;
};

}  // namespace parkade::daemon
