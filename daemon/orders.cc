// Checks the ranges of an order.
#include "daemon/orders.h"

#include "daemon/scratch_base.h"
#include "daemon/status.h"
#include "daemon/tags.h"
#include "daemon/words.h"

namespace parkade::daemon {

absl::Status Check(const PauseOrder& order) {
  const auto bad_size = [](std::string_view what) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_SIZE", what);
  };
  if (auto s = CheckPolicies(order.policies); !s.ok()) return s;
  if (order.gate.drain_timeout_ns == 0) return bad_size("drain_timeout must be more than zero");
  // The chunk is host memory pinned for staging; the shim takes multiples of a GPU page.
  if (order.chunk_bytes < 16_MiB || order.chunk_bytes > 4_GiB) {
    return bad_size(Cat("chunk_bytes is ", order.chunk_bytes, ", must be from 16 MiB to 4 GiB"));
  }
  if (order.chunk_bytes % 2_MiB != 0) return bad_size("chunk_bytes must be a multiple of 2 MiB");
  if (order.deep && order.gate.mode == wire::GateMode::kOpen) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_POLICY",
                "deep stops every CUDA call of the process: the gate must be closed");
  }
  if (order.deep && order.policies.write_behind) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_POLICY",
                "deep leaves nothing that could move on to disk behind it");
  }
  if (order.scratch_base.empty()) return absl::OkStatus();
  return CheckBasePath(order.scratch_base);
}

absl::Status Check(const ResumeOrder& order) { return CheckNames(order.tags); }

}  // namespace parkade::daemon
