// `parkade verify`: has the backups of paused processes read and compared with their hashes.
#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/json.h"
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

struct VerifyOptions {
  SelectorOptions selector;
  bool allow_empty = false;
  std::string request_id;
};

std::string PlaceOf(const v1::WrongBlock& block) {
  if (block.place() != "disk") return block.place();
  return absl::StrCat("data.", block.file(), " at ", block.offset());
}

void Print(const Results& results, const Context& context) {
  Terminal& terminal = context.terminal;
  if (context.json()) {
    terminal.out << VerifyJson(results) << '\n';
    return;
  }
  Table table;
  table.AddColumn("PID", Align::kRight);
  table.AddColumn("STATE");
  for (const char* name : {"HOST", "DISK", "PATTERNS", "WRONG", "TIME", "RATE"}) {
    table.AddColumn(name, Align::kRight);
  }
  Table wrong;
  for (const char* name : {"PID", "DEVICE", "SIZE"}) wrong.AddColumn(name, Align::kRight);
  for (const char* name : {"ADDRESS", "WRONG", "PLACE"}) wrong.AddColumn(name);
  for (const auto& result : results) {
    const std::string pid = absl::StrCat(result.pid());
    table.AddRow({pid, Table::Cell(StateName(result.state()), ColourOf(result.state())),
                  FormatBytes(result.host_bytes()), FormatBytes(result.disk_bytes()),
                  FormatBytes(result.elided_bytes()), absl::StrCat(result.wrong_block_count()),
                  FormatSeconds(result.total_seconds()),
                  FormatRate(result.host_bytes() + result.disk_bytes(), result.move_seconds())});
    for (const v1::WrongBlock& block : result.wrong_blocks()) {
      wrong.AddRow({pid, absl::StrCat(block.device()), FormatBytes(block.bytes()),
                    FormatAddress(block.address()), block.missing() ? "missing" : "changed",
                    PlaceOf(block)});
    }
  }
  const size_t width = context.wide() ? 0 : terminal.out_columns;
  table.Print(terminal.out, width, terminal.colour);
  if (!wrong.empty()) wrong.Print(terminal.out << '\n', width, terminal.colour);
}

int Verify(const VerifyOptions& options, const Context& context) {
  const std::string what = absl::StrCat("verify ", options.selector.Words());
  if (auto s = CheckSelects(options.selector); !s.ok()) return context.Fail("verify", s);
  Client client(context.globals);
  const auto selector = MakeSelector(options.selector, client);
  if (!selector.ok()) return context.Fail(what, selector.status());
  v1::VerifyRequest request;
  *request.mutable_selector() = *selector;
  request.set_allow_empty(options.allow_empty);
  // A name of its own, by which the results of one that failed are found.
  request.set_request_id(options.request_id.empty()
                             ? absl::StrCat("verify-", getpid(), "-", absl::GetCurrentTimeNanos())
                             : options.request_id);
  SetInterruptSentence(kGoesOn);
  const auto response = client.Verify(request);
  if (response.ok()) {
    Print(response->results(), context);
    return kExitOk;
  }
  if (response.status().code() == absl::StatusCode::kDataLoss) {
    v1::GetOperationRequest found;
    found.set_request_id(request.request_id());
    const auto operation = client.GetOperation(found);
    if (operation.ok()) Print(operation->results(), context);
  }
  return context.Fail(what, response.status());
}

}  // namespace

void AddVerify(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "verify", "Reads the backups of paused processes, and says whether they are whole");
  auto options = std::make_shared<VerifyOptions>();
  AddSelector(*verb, options->selector);
  verb->add_flag("--allow-empty", options->allow_empty, "No process that matches is no error");
  verb->add_option("--request-id", options->request_id,
                   "A name for this request: repeating it gives the first answer again")
      ->check(IsLabel(128))
      ->type_name("ID");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Verify(*options, context); };
  });
}

}  // namespace parkade::cli
