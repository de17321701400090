// What the journal remembers, and its form in bytes.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/identity.h"
#include "daemon/orders.h"
#include "daemon/process.h"

namespace parkade::daemon {

// A process as it was last known.
struct RememberedProcess {
  Identity identity;
  Introduction introduction;
  wire::ProcessState state = wire::ProcessState::kRunning;
};

// A transition that has begun.
struct BegunOperation {
  enum class Kind : uint64_t { kPause = 1, kResume = 2 };
  struct Party {
    Identity identity;
    bool was_out = false;  // its bytes were out before
  };
  uint64_t number = 0;
  Kind kind = Kind::kPause;
  std::vector<Party> parties;
};

// What a request with an id was answered.
struct GivenAnswer {
  std::string caller;  // Caller::Name
  std::string request_id;
  std::string body;
  absl::StatusOr<Outcomes> answer;
};

std::string Pack(const RememberedProcess& process);
std::string Pack(const BegunOperation& operation);
std::string Pack(const GivenAnswer& answer);

// Empty for bytes that are none: of another version, or not ours.
std::optional<RememberedProcess> UnpackProcess(std::string_view bytes);
std::optional<BegunOperation> UnpackOperation(std::string_view bytes);
std::optional<GivenAnswer> UnpackAnswer(std::string_view bytes);

}  // namespace parkade::daemon
