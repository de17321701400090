// What a checkpoint of optimizer stores is, in figures.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "common/store/checkpoint.h"

namespace parkade::cli {

struct CheckpointFigures {
  uint64_t step = 0;
  uint32_t ranks = 0;
  uint64_t parameters = 0;  // by name, once each
  uint64_t elements = 0;    // of them
  uint64_t bytes = 0;       // of files
  std::string encodings;    // "main lo16, exp_avg bf16, ..."
  std::string state;        // "complete", "incomplete", or what is wrong
  absl::Status problem;     // of one that says it is complete and is not
};

// Reads manifests, and no bucket.
CheckpointFigures FiguresOf(const std::string& directory, const store::Generation& generation);
nlohmann::ordered_json ToJson(const CheckpointFigures& figures);

}  // namespace parkade::cli
