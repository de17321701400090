// `parkade watch`: one line for every change, as it happens.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/operation.h"
#include "cli/selector.h"
#include "cli/state_cell.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

void PrintOperation(const v1::Event& event, Terminal& terminal) {
  const v1::Operation& operation = event.operation();
  terminal.out << absl::StreamFormat(
                      "%s  %s %s  %s %s  %s", FormatTime(event.time(), absl::LocalTimeZone()),
                      KindName(event.kind()), operation.id(), OperationKindName(operation.kind()),
                      OperationStateName(operation.state()), OutcomeOf(operation))
               << std::endl;
}

void PrintEvent(const v1::Event& event, bool wide, Terminal& terminal) {
  if (event.has_operation()) return PrintOperation(event, terminal);
  const v1::Process& process = event.process();
  const Table::Cell state = StateCell(process);
  // Padded before it is painted: colour codes have no width.
  const std::string padded = absl::StrFormat("%-12s", state.text);
  terminal.out << absl::StreamFormat(
      "%s  %-8s %8d  %-20s  %s", FormatTime(event.time(), absl::LocalTimeZone()),
      KindName(event.kind()), process.pid(), Printable(Labels(process)),
      Paint(padded, state.colour, terminal.colour));
  if (process.has_progress()) terminal.out << "  " << FormatProgress(process.progress());
  if (wide) terminal.out << "  " << Printable(process.command());
  terminal.out << std::endl;
}

struct WatchOptions {
  SelectorOptions selector;
  bool operations = false;
};

int Watch(const WatchOptions& all, const Context& context) {
  const SelectorOptions& options = all.selector;
  const std::string what = absl::StrCat("watch", options.empty() ? "" : " ", options.Words());
  Client client(context.globals);
  const auto selector = MakeSelector(options, client);
  if (!selector.ok()) return context.Fail(what, selector.status());
  v1::WatchRequest request;
  *request.mutable_selector() = *selector;
  request.set_operations(all.operations);
  const auto events = client.Watch(request);
  v1::Event event;
  while (context.terminal.out && events->Next(&event)) {
    if (context.json()) {
      context.terminal.out << EventJson(event) << std::endl;
    } else {
      PrintEvent(event, context.wide(), context.terminal);
    }
  }
  if (!context.terminal.out) return kExitFailed;  // main says why
  const absl::Status status = events->Finish();
  // --timeout says how long to watch: its end is no failure.
  const bool timed_out = status.code() == absl::StatusCode::kDeadlineExceeded;
  if (status.ok() || (timed_out && context.globals.timeout)) return kExitOk;
  return context.Fail(what, status);
}

}  // namespace

void AddWatch(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "watch", "Prints a line for every change until Ctrl-C, or for as long as --timeout says");
  auto options = std::make_shared<WatchOptions>();
  AddSelector(*verb, options->selector);
  verb->add_flag("--operations", options->operations,
                 "Also the pauses and resumes themselves: while they run, and how they end");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Watch(*options, context); };
  });
}

}  // namespace parkade::cli
