// Metrics of a build without prometheus-cpp, of which Debian has no static libraries: there are
// none.
#include "daemon/metrics.h"
#include "daemon/status.h"

namespace parkade::daemon {

struct Metrics::Server {};

Metrics::Metrics(std::unique_ptr<Server> server) : server_(std::move(server)) {}
Metrics::~Metrics() = default;

absl::StatusOr<std::unique_ptr<Metrics>> Metrics::Listen(Neighbours, const std::string&) {
  return Fail(absl::StatusCode::kInvalidArgument, "BAD_CONFIG",
              "metrics.listen is set, and this build of parkaded has no metrics: take the "
              "dynamically linked one, or leave the setting out");
}

void Metrics::Ended(const OperationView&) {}

}  // namespace parkade::daemon
