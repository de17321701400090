// Packs an absl::Status into a grpc::Status.
#include "daemon/status_grpc.h"

#include <grpcpp/support/error_details.h>

#include "absl/strings/cord.h"
#include "daemon/status.h"
#include "proto/error.pb.h"

namespace parkade::daemon {

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::ErrorStatus details;
  details.set_code(int(status.code()));
  details.set_message(MessageOf(status));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    auto* any = details.add_details();
    any->set_type_url(std::string(url));
    any->set_value(std::string(payload));
  });
  grpc::Status out;
  grpc::SetErrorDetails(details, &out);
  return out;
}

}  // namespace parkade::daemon
