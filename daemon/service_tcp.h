// What gRPC says about who calls, and the listener on the network for callers with certificates.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <memory>

#include "absl/status/statusor.h"
#include "daemon/authority.h"
#include "daemon/config.h"

namespace parkade::daemon {

// See Authority::CallerOf; of a connection over TLS with the names in its verified certificate.
absl::StatusOr<Caller> CallerOf(const Authority& authority, const grpc::ServerContext& context);

// Credentials that insist on a certificate of each caller, signed by `client_ca`. INVALID_ARGUMENT
// (BAD_CONFIG) for a file that cannot be read, that another user could change, or a key that others
// may read; the message names it.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TcpCredentials(const TcpConfig& tcp);

// Adds the listener to a server to be built; `port` is 0 afterwards if it could not be opened.
void AddTcp(grpc::ServerBuilder& builder, const TcpConfig& tcp,
            std::shared_ptr<grpc::ServerCredentials> credentials, int* port);

}  // namespace parkade::daemon
