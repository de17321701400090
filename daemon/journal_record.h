// What the journal remembers, and its form in bytes.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/budget_limits.h"
#include "daemon/course.h"
#include "daemon/group.h"
#include "daemon/identity.h"
#include "daemon/orders.h"
#include "daemon/process.h"
#include "daemon/reservation.h"

namespace parkade::daemon {

// A process as it was last known.
struct RememberedProcess {
  Identity identity;
  Introduction introduction;
  wire::ProcessState state = wire::ProcessState::kRunning;
  DeepMark deep = {};
  bool for_turn = false;  // as in ProcessView
};

enum class OperationKind : uint64_t {
  kPause = 1,
  kResume = 2,
  kHandoff = 3,
  kReserve = 4,
  kVerify = 5,
  kPrefetch = 6,
  kWriteBehind = 7
};
// As it stands in sentences.
const char* NameOf(OperationKind kind);

// What a resume brings back; see ResumeOrder.
struct PartsBack {
  std::vector<std::string> tags = {};
  wire::GateMode gate = wire::GateMode::kOpen;
};

// A transition that has begun.
struct BegunOperation {
  struct Party {
    Identity identity;
    bool was_out = false;  // its bytes were out before
  };
  uint64_t number = 0;
  OperationKind kind = OperationKind::kPause;
  std::vector<Party> parties;
  Origin origin;
  PartsBack parts = {};  // of a resume
};

// What a request was answered.
struct GivenAnswer {
  std::string caller;      // Caller::Name
  std::string request_id;  // empty: it had none
  std::string body;
  absl::StatusOr<Outcomes> answer;
  std::string operation = {};  // its id
  OperationKind kind = OperationKind::kPause;
  std::vector<int> pids = {};
  uint64_t begun_ns = 0, ended_ns = 0;  // CLOCK_REALTIME
  Outcomes report = {};                 // what is known of its processes although it failed
};

std::string Pack(const RememberedProcess& process);
std::string Pack(const BegunOperation& operation);
std::string Pack(const GivenAnswer& answer);
std::string Pack(const Group& group);
std::string Pack(const Reservation& reservation);
std::string Pack(const BudgetLimits& limits);

// Empty for bytes that are none: of another version, or not ours.
std::optional<RememberedProcess> UnpackProcess(std::string_view bytes);
std::optional<BegunOperation> UnpackOperation(std::string_view bytes);
std::optional<GivenAnswer> UnpackAnswer(std::string_view bytes);
std::optional<Group> UnpackGroup(std::string_view bytes);
std::optional<Reservation> UnpackReservation(std::string_view bytes);
std::optional<BudgetLimits> UnpackBudget(std::string_view bytes);

}  // namespace parkade::daemon
