// BudgetLimits: what backups of a job, or of the whole node, may take.
#pragma once

#include <optional>
#include <string>

#include "common/bytes.h"

namespace parkade::daemon {

struct BudgetLimits {
  std::string job;  // empty: of the whole node
  // 0: as much as there is. Empty: nobody has said so; for the node the configuration decides.
  std::optional<Bytes> host = {};
  std::optional<Bytes> disk = {};

  bool limits_nothing() const { return host.value_or(0) == 0 && disk.value_or(0) == 0; }
};

}  // namespace parkade::daemon
