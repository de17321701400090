// `parkade cancel`: ends a pause or resume early.
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/operation.h"
#include "cli/read.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

struct CancelOptions {
  std::string id;
  std::string request_id;
};

int Cancel(const CancelOptions& options, const Context& context) {
  if (options.id.empty() == options.request_id.empty()) {
    return context.Fail("cancel",
                        UsageError("give the ID that `parkade ops` shows, or --request-id"));
  }
  const std::string what =
      absl::StrCat("cancel ", options.id.empty() ? options.request_id : options.id);
  Client client(context.globals);
  v1::CancelOperationRequest request;
  request.set_id(options.id);
  request.set_request_id(options.request_id);
  const auto operation = client.CancelOperation(request);
  if (!operation.ok()) return context.Fail(what, operation.status());
  OperationList one;
  *one.Add() = *operation;
  PrintOperations(one, context);
  switch (operation->state()) {
    case v1::Operation::STATE_FAILED:
      return kExitOk;
    case v1::Operation::STATE_DONE:
      return context.Fail(what, MakeStatus(absl::StatusCode::kFailedPrecondition,
                                           "it has come to its end before", "DONE"));
    default:
      return context.Fail(what, MakeStatus(absl::StatusCode::kDeadlineExceeded,
                                           "it has not ended yet", "STILL_RUNNING"));
  }
}

}  // namespace

void AddCancel(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "cancel", "Ends a pause, which is undone, or a resume that waits for room");
  auto options = std::make_shared<CancelOptions>();
  verb->add_option("ID", options->id, "Which, as `parkade ops` shows it")->check(IsLabel(128));
  verb->add_option("--request-id", options->request_id, "Or the name that its request had")
      ->check(IsLabel(128))
      ->type_name("ID");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Cancel(*options, context); };
  });
}

}  // namespace parkade::cli
