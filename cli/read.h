// Reads and checks what users type: durations, sizes, labels. A validator gives the parser one
// sentence, so that a wrong value is refused before anything is done.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace parkade::cli {

// "500ms", "30s", "1h30m"; INVALID_ARGUMENT for zero, negative, endless or unitless ones.
absl::StatusOr<absl::Duration> ReadDuration(const std::string& text);

google::protobuf::Duration ToProto(absl::Duration duration);

// "host", "disk", "auto", "discard", "keep"; UNSPECIFIED for anything else.
v1::Policy ReadPolicy(const std::string& text);

CLI::Validator IsDuration();
// A size as common/bytes.h reads it, from `least` to `most`.
CLI::Validator IsSize(uint64_t least, uint64_t most);
// A label of at most `longest` bytes, not empty, without control characters.
CLI::Validator IsLabel(size_t longest);
CLI::Validator IsPid();
// A whole number from 1 on that fits 64 bits.
CLI::Validator IsEpoch();
CLI::Validator IsRank();
// An absolute path that fits the fields that carry it.
CLI::Validator IsDirectoryName();

}  // namespace parkade::cli
