// ServiceListener: accepts control connections itself, so that their users are known, and hands
// them to gRPC.
#pragma once

#include <grpcpp/server.h>

#include <thread>

#include "common/fd.h"
#include "daemon/authority.h"

namespace parkade::daemon {

class ServiceListener {
 public:
  // `server` and `authority` outlive it. Accepts until it is destroyed.
  ServiceListener(Fd socket, grpc::Server& server, Authority& authority);
  ~ServiceListener();

 private:
  void Loop();

  Fd socket_;
  Fd stop_;
  grpc::Server& server_;
  Authority& authority_;
  std::thread thread_;
};

}  // namespace parkade::daemon
