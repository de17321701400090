// `parkade prefetch`: brings the backups of paused processes from disk into host memory.
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/read.h"
#include "cli/selector.h"
#include "cli/state_cell.h"
#include "cli/table.h"
#include "cli/transition.h"
#include "cli/transition_options.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

using Align = Table::Align;

struct PrefetchOptions {
  SelectorOptions selector;
  std::string tags;
  bool allow_empty = false;
  std::string request_id;
};

void Print(const Results& results, const Context& context) {
  Terminal& terminal = context.terminal;
  if (context.json()) {
    terminal.out << ResultsJson(results) << '\n';
    return;
  }
  Table table;
  table.AddColumn("PID", Align::kRight);
  table.AddColumn("STATE");
  for (const char* name : {"HOST", "LEFT", "TIME", "RATE"}) table.AddColumn(name, Align::kRight);
  for (const auto& result : results) {
    table.AddRow({absl::StrCat(result.pid()),
                  Table::Cell(StateName(result.state()), ColourOf(result.state())),
                  FormatBytes(result.host_bytes()), FormatBytes(result.left_bytes()),
                  FormatSeconds(result.total_seconds()),
                  FormatRate(result.host_bytes(), result.move_seconds())});
  }
  table.Print(terminal.out, context.wide() ? 0 : terminal.out_columns, terminal.colour);
}

int Prefetch(const PrefetchOptions& options, const Context& context) {
  const std::string what = absl::StrCat("prefetch ", options.selector.Words());
  if (auto s = CheckSelects(options.selector); !s.ok()) return context.Fail("prefetch", s);
  Client client(context.globals);
  const auto selector = MakeSelector(options.selector, client);
  if (!selector.ok()) return context.Fail(what, selector.status());
  v1::PrefetchRequest request;
  *request.mutable_selector() = *selector;
  if (!options.tags.empty()) request.add_tags(options.tags);
  request.set_allow_empty(options.allow_empty);
  request.set_request_id(options.request_id);
  SetInterruptSentence(kGoesOn);
  absl::StatusOr<v1::PrefetchResponse> response;
  {
    const Progress progress(client, *selector, "prefetching", context.terminal);
    response = client.Prefetch(request);
  }
  if (!response.ok()) return context.Fail(what, response.status());
  Print(response->results(), context);
  return kExitOk;
}

}  // namespace

void AddPrefetch(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "prefetch", "Brings backups of paused processes from disk into host memory, for a resume");
  auto options = std::make_shared<PrefetchOptions>();
  AddSelector(*verb, options->selector);
  verb->add_option("--tags", options->tags,
                   "Backups of these tags alone, apart by commas, in this order")
      ->type_name("TAGS");
  verb->add_flag("--allow-empty", options->allow_empty,
                 "No process that matches, or none with such a tag, is no error");
  verb->add_option("--request-id", options->request_id,
                   "A name for this request: repeating it gives the first answer again")
      ->check(IsLabel(128))
      ->type_name("ID");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Prefetch(*options, context); };
  });
}

}  // namespace parkade::cli
