// `parkade ops`: lists pauses and resumes that are under way, or that have been.
#include <memory>

#include "cli/client.h"
#include "cli/operation.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

int Ops(bool ended, const Context& context) {
  Client client(context.globals);
  v1::ListOperationsRequest request;
  request.set_ended(ended);
  const auto response = client.ListOperations(request);
  if (!response.ok()) return context.Fail("ops", response.status());
  PrintOperations(response->operations(), context);
  return kExitOk;
}

}  // namespace

void AddOps(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("ops", "Lists the pauses and resumes that are under way");
  struct Options {
    bool ended = false;
  };
  auto options = std::make_shared<Options>();
  verb->add_flag("--ended", options->ended, "Also those that have ended, as far as they are kept");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Ops(options->ended, context); };
  });
}

}  // namespace parkade::cli
