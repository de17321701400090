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
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

struct ResumeOptions {
  SelectorOptions selector;
  bool release_host = false;
  bool allow_empty = false;
  std::string wait;
  uint64_t epoch = 0;
  std::string request_id;
  bool dry_run = false;
};

int Resume(const ResumeOptions& options, const Context& context) {
  const std::string what = absl::StrCat("resume ", options.selector.Words());
  if (auto s = CheckSelects(options.selector); !s.ok()) return context.Fail("resume", s);
  v1::ResumeRequest request;
  if (!options.wait.empty()) {
    const absl::Duration wait = *ReadDuration(options.wait);
    if (context.globals.timeout && *context.globals.timeout <= wait) {
      return context.Fail(what,
                          UsageError("--timeout must be longer than --wait, which it contains"));
    }
    *request.mutable_wait_timeout() = ToProto(wait);
  }
  Client client(context.globals);
  const auto selector = MakeSelector(options.selector, client);
  if (!selector.ok()) return context.Fail(what, selector.status());
  *request.mutable_selector() = *selector;
  request.set_epoch(options.epoch);
  request.set_release_host(options.release_host);
  request.set_allow_empty(options.allow_empty);
  request.set_request_id(options.request_id);
  request.set_dry_run(options.dry_run);

  SetInterruptSentence(
      "\nparkade: resume: interrupted; the daemon goes on, `parkade ops` shows it, `parkade "
      "cancel` ends it\n");
  absl::StatusOr<v1::ResumeResponse> response;
  {
    Progress progress(client, *selector, "resuming", context.terminal);
    response = client.Resume(request);
  }
  if (!response.ok()) return context.Fail(what, response.status());
  if (options.dry_run) return PrintForecast(response->forecast(), context);
  PrintResults(response->results(), context);
  return kExitOk;
}

}  // namespace

void AddResume(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("resume", "Brings the bytes of paused processes back and lets them run");
  auto options = std::make_shared<ResumeOptions>();
  AddSelector(*verb, options->selector);
  verb->add_flag("--release-host", options->release_host,
                 "Give the pinned host memory back afterwards; the next pause is slower");
  verb->add_flag("--allow-empty", options->allow_empty, "No process that matches is no error");
  verb->add_flag("--dry-run", options->dry_run, "Say what would come of it, and move nothing");
  verb->add_option("--wait", options->wait,
                   "Longest wait for the GPU memory that is missing; without it a resume that does "
                   "not fit is refused at once")
      ->check(IsDuration())
      ->type_name("TIME");
  verb->add_option("--epoch", options->epoch,
                   "Refuse when a caller with a higher epoch has moved one of the processes")
      ->check(IsEpoch())
      ->type_name("N");
  verb->add_option("--request-id", options->request_id,
                   "A name for this request: repeating it gives the first answer again")
      ->check(IsLabel(128))
      ->type_name("ID");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Resume(*options, context); };
  });
}

}  // namespace parkade::cli
