// `parkade handoff`: one group's memory leaves the GPU while another's comes in.
#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/forecast.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/read.h"
#include "cli/tag_policies.h"
#include "cli/transition.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

struct HandoffOptions {
  std::string out, in;  // PIDs or the name of a group
  std::string policy;
  std::vector<std::string> tag_policies;
  std::string tags;
  std::string drain_timeout;
  std::string scratch_dir;
  std::string overlap;
  bool release_host = false;
  bool dry_run = false;
  uint64_t epoch = 0;
  std::string request_id;
};

// "4711,4712", else the name of a group.
absl::StatusOr<v1::Selector> ReadSide(const std::string& text, const char* option) {
  v1::Selector selector;
  if (text.find_first_not_of("0123456789,") != text.npos) {
    selector.set_group(text);
    return selector;
  }
  for (const auto word : absl::StrSplit(text, ',')) {
    int32_t pid = 0;
    if (!absl::SimpleAtoi(word, &pid) || pid <= 0) {
      return UsageError(absl::StrCat(option, ": \"", text, "\" is no list of PIDs"));
    }
    selector.add_pids(pid);
  }
  return selector;
}

absl::StatusOr<v1::HandoffRequest> MakeRequest(const HandoffOptions& options,
                                               const Context& context) {
  v1::HandoffRequest request;
  v1::PauseRequest& out = *request.mutable_outgoing();
  const auto out_selector = ReadSide(options.out, "--out");
  if (!out_selector.ok()) return out_selector.status();
  const auto in_selector = ReadSide(options.in, "--in");
  if (!in_selector.ok()) return in_selector.status();
  *out.mutable_selector() = *out_selector;
  *request.mutable_incoming()->mutable_selector() = *in_selector;
  out.set_policy(ReadPolicy(options.policy));
  if (auto s = AddTagPolicies(options.tag_policies, *out.mutable_tag_policies()); !s.ok()) return s;
  if (!options.tags.empty()) out.add_tags(options.tags);
  if (!options.drain_timeout.empty()) {
    const absl::Duration wait = *ReadDuration(options.drain_timeout);
    if (context.globals.timeout && *context.globals.timeout <= wait) {
      return UsageError("--timeout must be longer than --drain-timeout, which it contains");
    }
    *out.mutable_drain_timeout() = ToProto(wait);
  }
  out.set_scratch_base(options.scratch_dir);
  request.mutable_incoming()->set_release_host(options.release_host);
  if (!options.overlap.empty()) {
    request.set_overlap(options.overlap == "gpu"       ? v1::OVERLAP_GPU
                        : options.overlap == "ordered" ? v1::OVERLAP_ORDERED
                                                       : v1::OVERLAP_HOST);
  }
  request.set_epoch(options.epoch);
  request.set_request_id(options.request_id);
  request.set_dry_run(options.dry_run);
  return request;
}

int Handoff(const HandoffOptions& options, const Context& context) {
  const std::string what = absl::StrCat("handoff ", options.out, " to ", options.in);
  const auto request = MakeRequest(options, context);
  if (!request.ok()) return context.Fail(what, request.status());
  Client client(context.globals);
  SetInterruptSentence(
      "\nparkade: handoff: interrupted; the daemon goes on, `parkade ops` shows it, `parkade "
      "cancel` ends it\n");
  absl::StatusOr<v1::HandoffResponse> response;
  {
    // Of who goes out: the others' bytes move as theirs do.
    const Progress progress(client, request->outgoing().selector(), "handing over",
                            context.terminal);
    response = client.Handoff(*request);
  }
  if (!response.ok()) return context.Fail(what, response.status());
  if (options.dry_run) return PrintForecast(response->forecast(), context);
  PrintResults(response->results(), context);
  return kExitOk;
}

}  // namespace

void AddHandoff(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "handoff", "Moves one group's bytes out of GPU memory while another's come in");
  auto options = std::make_shared<HandoffOptions>();
  verb->add_option("--out", options->out, "Who goes out: PIDs, as 4711,4712, or a group's name")
      ->required()
      ->check(IsLabel(256))
      ->type_name("WHO");
  verb->add_option("--in", options->in, "Who comes in, likewise")
      ->required()
      ->check(IsLabel(256))
      ->type_name("WHO");
  AddPolicies(*verb, options->policy, options->tag_policies);
  verb->add_option("--tags", options->tags,
                   "These alone go out, such as kv_cache,weights; the others stay in GPU memory")
      ->type_name("TAGS");
  verb->add_option("--drain-timeout", options->drain_timeout,
                   "Longest wait for running GPU work (30s); past it nothing has changed")
      ->check(IsDuration())
      ->type_name("TIME");
  verb->add_option("--scratch-dir", options->scratch_dir,
                   "Directory for the bytes on disk; the daemon's configuration must allow it")
      ->check(IsDirectoryName())
      ->type_name("DIR");
  verb->add_option("--overlap", options->overlap,
                   "host (default): GPU memory changes hands piece by piece; gpu: who comes in may "
                   "take all that is free; ordered: nothing comes in before all is out")
      ->check(CLI::IsMember({"host", "gpu", "ordered"}).description(""))
      ->type_name("WHERE");
  verb->add_flag("--release-host", options->release_host,
                 "Who came in gives its pinned host memory back afterwards");
  verb->add_flag("--dry-run", options->dry_run, "Say what would come of it, and move nothing");
  verb->add_option("--epoch", options->epoch,
                   "Refuse when a caller with a higher epoch has moved one of the processes")
      ->check(IsEpoch())
      ->type_name("N");
  verb->add_option("--request-id", options->request_id,
                   "A name for this request: repeating it gives the first answer again")
      ->check(IsLabel(128))
      ->type_name("ID");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Handoff(*options, context); };
  });
}

}  // namespace parkade::cli
