// `parkade resume`: brings the bytes of processes back and lets them run.
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/forecast.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/read.h"
#include "cli/selector.h"
#include "cli/transition.h"
#include "cli/transition_options.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

struct ResumeOptions {
  SelectorOptions selector;
  bool release_host = false;
  bool allow_empty = false;
  std::string wait;
  std::string tags;
  std::string gate;
  int32_t priority = 0;
  TransitionOptions shared;
};

int Resume(const ResumeOptions& options, const Context& context) {
  const std::string what = absl::StrCat("resume ", options.selector.Words());
  if (auto s = CheckSelects(options.selector); !s.ok()) return context.Fail("resume", s);
  if (!options.gate.empty() && options.tags.empty()) {
    return context.Fail(
        "resume", UsageError("--gate has no effect without --tags: with all of its bytes back a "
                             "process runs"));
  }
  v1::ResumeRequest request;
  const auto wait = ReadWait(options.wait, "--wait", context);
  if (!wait.ok()) return context.Fail(what, wait.status());
  if (*wait) *request.mutable_wait_timeout() = ToProto(**wait);
  Client client(context.globals);
  const auto selector = MakeSelector(options.selector, client);
  if (!selector.ok()) return context.Fail(what, selector.status());
  *request.mutable_selector() = *selector;
  FillIn(options.shared, request);
  request.set_release_host(options.release_host);
  request.set_priority(options.priority);
  request.set_allow_empty(options.allow_empty);
  if (!options.tags.empty()) request.add_tags(options.tags);
  if (!options.gate.empty()) {
    request.set_gate_mode(options.gate == "open" ? v1::GATE_MODE_OPEN : v1::GATE_MODE_CLOSED);
  }

  SetInterruptSentence(kGoesOnOrLeaves);
  absl::StatusOr<v1::ResumeResponse> response;
  {
    Progress progress(client, *selector, "resuming", context.terminal);
    response = client.Resume(request);
  }
  if (!response.ok()) return context.Fail(what, response.status());
  if (options.shared.dry_run) return PrintForecast(response->forecast(), context);
  PrintResults(response->results(), context);
  return kExitOk;
}

}  // namespace

void AddResume(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("resume", "Brings the bytes of paused processes back and lets them run");
  auto options = std::make_shared<ResumeOptions>();
  AddSelector(*verb, options->selector);
  verb->add_option("--tags", options->tags,
                   "These alone come back, in this order, such as weights,kv_cache; what stays out "
                   "the program must not touch")
      ->type_name("TAGS");
  verb->add_option("--gate", options->gate,
                   "With --tags, while something stays out: open (default), the processes go on; "
                   "closed: they wait until all is back")
      ->check(CLI::IsMember({"closed", "open"}).description(""))
      ->type_name("MODE");
  verb->add_flag("--release-host", options->release_host,
                 "Give the pinned host memory back afterwards; the next pause is slower");
  verb->add_flag("--allow-empty", options->allow_empty,
                 "No process that matches, or none with a tag that is named, is no error");
  verb->add_option("--wait", options->wait,
                   "Longest wait for the GPU memory that is missing; without it a resume that does "
                   "not fit is refused at once")
      ->check(IsDuration())
      ->type_name("TIME");
  AddPriority(*verb, options->priority);
  AddTransitionOptions(*verb, options->shared);
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Resume(*options, context); };
  });
}

}  // namespace parkade::cli
