// What is known of the driver's process checkpoint of a process, which a deep pause ends with.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "common/bytes.h"

namespace parkade::daemon {

// How the driver has a process.
struct DeepMark {
  enum class State : uint32_t {
    kNone,    // as ever
    kDeep,    // checkpointed, or about to be, or on its way back: its calls wait in the driver
    kFailed,  // given up by the driver
  };
  State state = State::kNone;
  std::map<std::string, Bytes> bytes = {};  // HBM that its way back takes, by GPU

  bool operator==(const DeepMark&) const = default;
};
constexpr bool IsDeepState(uint64_t v) { return v <= 2; }

// What a step to it, or back, came to; see DeepStep in operation.proto.
struct DeepOutcome {
  bool concerns = false;  // it was asked for, or there was one to undo
  bool deep = false;
  Bytes bytes = 0;  // given back, or taken again
  double seconds = 0;
  absl::Status refusal = {};
};

}  // namespace parkade::daemon
