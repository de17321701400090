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
#include "cli/transition_options.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

struct HandoffOptions {
  std::string out, in;  // PIDs or the name of a group
  std::string policy;
  std::vector<std::string> tag_policies;
  LeavingOptions leaving;
  std::string overlap;
  bool release_host = false;
  int32_t priority = 0;
  TransitionOptions shared;
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
  if (auto s = FillIn(options.leaving, context, out); !s.ok()) return s;
  request.mutable_incoming()->set_release_host(options.release_host);
  request.mutable_incoming()->set_priority(options.priority);
  if (!options.overlap.empty()) {
    request.set_overlap(options.overlap == "gpu"       ? v1::OVERLAP_GPU
                        : options.overlap == "ordered" ? v1::OVERLAP_ORDERED
                                                       : v1::OVERLAP_HOST);
  }
  FillIn(options.shared, request);
  return request;
}

int Handoff(const HandoffOptions& options, const Context& context) {
  const std::string what = absl::StrCat("handoff ", options.out, " to ", options.in);
  const auto request = MakeRequest(options, context);
  if (!request.ok()) return context.Fail(what, request.status());
  Client client(context.globals);
  SetInterruptSentence(kGoesOn);
  absl::StatusOr<v1::HandoffResponse> response;
  {
    // Of who goes out: the others' bytes move as theirs do.
    const Progress progress(client, request->outgoing().selector(), "handing over",
                            context.terminal);
    response = client.Handoff(*request);
  }
  if (!response.ok()) return context.Fail(what, response.status());
  if (options.shared.dry_run) return PrintForecast(response->forecast(), context);
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
  AddLeavingOptions(*verb, options->leaving);
  verb->add_option("--overlap", options->overlap,
                   "host (default): GPU memory changes hands piece by piece; gpu: who comes in may "
                   "take all that is free; ordered: nothing comes in before all is out")
      ->check(CLI::IsMember({"host", "gpu", "ordered"}).description(""))
      ->type_name("WHERE");
  verb->add_flag("--release-host", options->release_host,
                 "Who came in gives its pinned host memory back afterwards");
  AddPriority(*verb, options->priority);
  AddTransitionOptions(*verb, options->shared);
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Handoff(*options, context); };
  });
}

}  // namespace parkade::cli
