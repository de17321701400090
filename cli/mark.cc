// `parkade mark NAME`: says what a job does from now on, for the pictures of `parkade report`.
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/read.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

struct MarkOptions {
  std::string name, job;
  bool point = false, end = false;
};

int Mark(const MarkOptions& options, const Context& context) {
  const std::string what = absl::StrCat("mark", options.name.empty() ? "" : " ", options.name);
  if (options.end && (options.point || !options.name.empty())) {
    return context.Fail(what, UsageError("--end ends the phase there is; it takes no name"));
  }
  if (!options.end && options.name.empty()) {
    return context.Fail(what, UsageError("name the phase that begins, or --end"));
  }
  v1::MarkRequest request;
  request.set_name(options.name);
  request.set_job(options.job);
  request.set_kind(options.end     ? v1::TimelineMark::KIND_END
                   : options.point ? v1::TimelineMark::KIND_POINT
                                   : v1::TimelineMark::KIND_PHASE);
  const auto response = Client(context.globals).Mark(request);
  return response.ok() ? kExitOk : context.Fail(what, response.status());
}

}  // namespace

void AddMark(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("mark", "Names what a job does from now on, for `parkade report`");
  auto options = std::make_shared<MarkOptions>();
  verb->add_option("name", options->name, "Of the phase, such as generate or train")
      ->type_name("NAME")
      ->check(IsLabel(64));
  verb->add_option("--job", options->job, "Whose phase it is; without it, the whole node's")
      ->type_name("JOB")
      ->check(IsLabel(63));
  verb->add_flag("--point", options->point, "A moment, not a phase");
  verb->add_flag("--end", options->end, "The phase is over, and no other begins");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Mark(*options, context); };
  });
}

}  // namespace parkade::cli
