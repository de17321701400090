// The options that the verbs share which move bytes, and what they do with them.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/context.h"
#include "cli/read.h"
#include "cli/selector.h"
#include "common/bytes.h"
#include "proto/control.pb.h"

namespace parkade::cli {

struct TransitionOptions {
  bool dry_run = false;
  uint64_t epoch = 0;
  std::string request_id;
};

// Adds --dry-run, --epoch and --request-id.
void AddTransitionOptions(CLI::App& verb, TransitionOptions& options);

template <typename Request>
void FillIn(const TransitionOptions& options, Request& request) {
  request.set_dry_run(options.dry_run);
  request.set_epoch(options.epoch);
  request.set_request_id(options.request_id);
}

// Adds --priority, of a request in the queue for GPU memory.
void AddPriority(CLI::App& verb, int32_t& priority);

// How a pause leaves the GPU.
struct LeavingOptions {
  std::string tags;
  std::string drain_timeout;
  std::string scratch_dir;
  bool write_behind = false;
};

// Adds --tags, --drain-timeout, --scratch-dir and --write-behind.
void AddLeavingOptions(CLI::App& verb, LeavingOptions& options);
// INVALID_ARGUMENT where --timeout leaves no time for the drain.
absl::Status FillIn(const LeavingOptions& options, const Context& context,
                    v1::PauseRequest& request);

// A wait that is part of the call, as IsDuration() has passed it; none where it is empty.
// INVALID_ARGUMENT where --timeout is not longer. `option`: as the user writes it.
absl::StatusOr<std::optional<absl::Duration>> ReadWait(const std::string& text, const char* option,
                                                       const Context& context);

// What Ctrl-C says while a request may wait in the queue for GPU memory.
inline constexpr char kGoesOnOrLeaves[] =
    "\nparkade: interrupted; what waits for GPU memory leaves the queue, anything else goes on, as "
    "`parkade ops` shows\n";

// What Ctrl-C says while the daemon works.
inline constexpr char kGoesOn[] =
    "\nparkade: interrupted; the daemon goes on, `parkade ops` shows it, `parkade cancel` ends "
    "it\n";

// So much memory of a GPU, and how long to wait for it.
struct GpuSizeOptions {
  std::string gpu;
  std::string bytes;
  std::string wait;
};
void AddGpuSize(CLI::App& verb, GpuSizeOptions& options, const char* wait_help);
// Asks the daemon for the UUID of a GPU that is named by its index, last.
template <typename Request>
absl::Status FillIn(const GpuSizeOptions& options, const Context& context, Client& client,
                    Request& request) {
  request.set_bytes(*ParseBytes(options.bytes));
  const auto wait = ReadWait(options.wait, "--wait", context);
  if (!wait.ok()) return wait.status();
  if (*wait) *request.mutable_wait_timeout() = ToProto(**wait);
  const auto uuid = GpuUuid(options.gpu, client);
  if (uuid.ok()) request.set_gpu_uuid(*uuid);
  return uuid.status();
}

}  // namespace parkade::cli
