// The options that say which processes a verb means, and the Selector they make.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/client.h"
#include "proto/control.pb.h"

namespace parkade::cli {

struct SelectorOptions {
  std::vector<int32_t> pids;
  std::string job, role, cell;
  std::vector<int32_t> ranks;
  std::vector<std::string> gpus;  // "GPU-..." or an index as nvidia-smi counts
  bool all = false;
  std::string group;  // by name

  bool empty() const;
  // As it stands in sentences: "4711", "--job rl --rank 3".
  std::string Words() const;
};

// Adds --job, --role, --cell, --rank and --gpu.
void AddLabelSelector(CLI::App& verb, SelectorOptions& options);
// The same with PIDs as positionals, --group and --all.
void AddSelector(CLI::App& verb, SelectorOptions& options);

// INVALID_ARGUMENT when --all stands beside a narrower choice; NOT_FOUND for a GPU index that the
// node does not have. Asks the daemon only when an index has to become a UUID.
absl::StatusOr<v1::Selector> MakeSelector(const SelectorOptions& options, Client& client);

// Of a GPU given by index or UUID. NOT_FOUND (NO_GPU) for an index that the node does not have.
absl::StatusOr<std::string> GpuUuid(const std::string& gpu, Client& client);

// INVALID_ARGUMENT when nothing is selected; for verbs that change something.
absl::Status CheckSelects(const SelectorOptions& options);

}  // namespace parkade::cli
