// Metrics: what Prometheus reads of this daemon: who holds which memory, what moved and how long it
// took. Names, units and labels are in docs/operations.md.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/budgets.h"
#include "daemon/gpus.h"
#include "daemon/operations.h"
#include "daemon/registry.h"
#include "daemon/scratch.h"

namespace parkade::daemon {

class Metrics {
 public:
  // All outlive it.
  struct Neighbours {
    const Registry& registry;
    const Gpus& gpus;
    const Scratch& scratch;
    const Budgets& budgets;
  };
  // Serves http://ADDRESS/metrics until it is destroyed, from threads of its own; figures of the
  // moment are read when they are asked for. INVALID_ARGUMENT (BAD_CONFIG) where it cannot listen
  // there, and in builds without prometheus-cpp.
  static absl::StatusOr<std::unique_ptr<Metrics>> Listen(Neighbours neighbours,
                                                         const std::string& address);
  ~Metrics();

  // Counts an operation that has ended. Any thread.
  void Ended(const OperationView& operation);

 private:
  class Figures;
  struct Server;
  explicit Metrics(std::unique_ptr<Server> server);

  const std::unique_ptr<Server> server_;
};

}  // namespace parkade::daemon
