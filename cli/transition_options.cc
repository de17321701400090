// Adds shared options and reads them.
#include "cli/transition_options.h"

#include "absl/strings/str_cat.h"
#include "cli/error.h"
#include "cli/read.h"

namespace parkade::cli {

void AddTransitionOptions(CLI::App& verb, TransitionOptions& options) {
  verb.add_flag("--dry-run", options.dry_run, "Say what would come of it, and move nothing");
  verb.add_option("--epoch", options.epoch,
                  "Refuse when a caller with a higher epoch has moved one of the processes")
      ->check(IsEpoch())
      ->type_name("N");
  verb.add_option("--request-id", options.request_id,
                  "A name for this request: repeating it gives the first answer again")
      ->check(IsLabel(128))
      ->type_name("ID");
}

void AddPriority(CLI::App& verb, int32_t& priority) {
  verb.add_option("--priority", priority,
                  "In the queue for GPU memory: higher goes first, 0 by default")
      ->type_name("N");
}

void AddLeavingOptions(CLI::App& verb, LeavingOptions& options) {
  verb.add_option("--tags", options.tags,
                  "These alone go out, such as kv_cache,weights; the others stay in GPU memory")
      ->type_name("TAGS");
  verb.add_option("--drain-timeout", options.drain_timeout,
                  "Longest wait for running GPU work (30s); past it nothing has changed")
      ->check(IsDuration())
      ->type_name("TIME");
  verb.add_option("--scratch-dir", options.scratch_dir,
                  "Directory for the bytes on disk; the daemon's configuration must allow it")
      ->check(IsDirectoryName())
      ->type_name("DIR");
  verb.add_flag("--write-behind", options.write_behind,
                "Bytes for the disk go to host memory, as far as that has room, and from there on "
                "to disk when the answer has been given");
}

absl::Status FillIn(const LeavingOptions& options, const Context& context,
                    v1::PauseRequest& request) {
  const auto drain = ReadWait(options.drain_timeout, "--drain-timeout", context);
  if (!drain.ok()) return drain.status();
  if (*drain) *request.mutable_drain_timeout() = ToProto(**drain);
  if (!options.tags.empty()) request.add_tags(options.tags);
  request.set_scratch_base(options.scratch_dir);
  request.set_write_behind(options.write_behind);
  return absl::OkStatus();
}

void AddGpuSize(CLI::App& verb, GpuSizeOptions& options, const char* wait_help) {
  verb.add_option("GPU", options.gpu, "By index or UUID")
      ->required()
      ->check(IsLabel(64))
      ->type_name("");
  verb.add_option("SIZE", options.bytes, "Such as 40GiB")
      ->required()
      ->check(IsSize(1, 1024_GiB))
      ->type_name("");
  verb.add_option("--wait", options.wait, wait_help)->check(IsDuration())->type_name("TIME");
}

absl::StatusOr<std::optional<absl::Duration>> ReadWait(const std::string& text, const char* option,
                                                       const Context& context) {
  if (text.empty()) return std::nullopt;
  const absl::Duration wait = *ReadDuration(text);
  if (context.globals.timeout && *context.globals.timeout <= wait) {
    return UsageError(
        absl::StrCat("--timeout must be longer than ", option, ", which it contains"));
  }
  return wait;
}

}  // namespace parkade::cli
