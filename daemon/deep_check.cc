// What a ledger says against a deep pause.
#include "common/text.h"
#include "daemon/deep_pause.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using wire::AllocationClass;
using wire::ForeignKind;

// What the driver's checkpoint refuses, or has been seen to hang with. Pools, arrays and graphs it
// takes.
struct Refused {
  ForeignKind kind;
  const char* what;
};
constexpr Refused kRefused[] = {
    {ForeignKind::kNative, "native memory, of CUDA IPC or of a device without virtual memory"},
    {ForeignKind::kCommunication, "memory of a communication library (NCCL, NVSHMEM, UCX)"},
    {ForeignKind::kManaged, "managed memory"},
};

absl::Status Refuse(const Process& process, std::string_view reason, std::string_view what) {
  return Fail(absl::StatusCode::kFailedPrecondition, reason,
              Cat("process ", process.pid(), " ", what), {{"pid", std::to_string(process.pid())}});
}

}  // namespace

absl::Status CheckDeep(const Process& process) {
  if (!process.identity().visible) {
    return Refuse(process, "NOT_VISIBLE", "has a pid that is not known here");
  }
  const auto ledger = process.Ledger();
  if (!ledger.ok()) return ledger.status();
  if (ledger->header.state != uint64_t(wire::ProcessState::kPaused)) {
    return Refuse(process, "NOT_ALL_OUT", "is not paused");
  }
  if (ledger->header.gate_mode == uint64_t(wire::GateMode::kOpen)) {
    return Refuse(process, "NOT_ALL_OUT", "works at its open gate");
  }
  for (const wire::LedgerRecord& r : ledger->records) {
    if (wire::Place(r.place) != wire::Place::kGpu) continue;
    const auto allocation_class = AllocationClass(r.allocation_class);
    if (allocation_class == AllocationClass::kForeign) continue;
    const bool held = allocation_class == AllocationClass::kHeld;
    return Refuse(process, "NOT_ALL_OUT",
                  Cat("has memory in HBM that ",
                      held ? "others use: it is held" : "stays there by its policy or tag"));
  }
  for (const Refused& refused : kRefused) {
    Bytes bytes = 0;
    for (const wire::LedgerForeign& foreign : ledger->header.foreign) {
      bytes = std::min(bytes + std::min<Bytes>(foreign.bytes[size_t(refused.kind)], kMostClaimed),
                       kMostClaimed);
    }
    if (bytes == 0) continue;
    return Refuse(process, "FOREIGN_MEMORY", Cat("has ", InUnits(bytes), " of ", refused.what));
  }
  return absl::OkStatus();
}

}  // namespace parkade::daemon
