// `parkade gc`: removes scratch directories that dead processes have left.
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

std::string Fate(const v1::ScratchEntry& entry, bool dry_run) {
  if (!entry.dead()) return "stays";
  return dry_run ? "would go" : "removed";
}

Table MakeTable(const v1::CollectGarbageResponse& response, bool dry_run) {
  Table table;
  for (const char* name : {"PID", "UID", "SIZE"}) table.AddColumn(name, Table::Align::kRight);
  for (const char* name : {"FATE", "WHY", "PATH"}) table.AddColumn(name);
  for (const auto& entry : response.entries()) {
    table.AddRow({entry.pid() == 0 ? "-" : absl::StrCat(entry.pid()), absl::StrCat(entry.uid()),
                  FormatBytes(entry.bytes()), Fate(entry, dry_run), Printable(entry.reason()),
                  Printable(entry.path())});
  }
  return table;
}

int CollectGarbage(bool dry_run, const Context& context) {
  Client client(context.globals);
  v1::CollectGarbageRequest request;
  request.set_dry_run(dry_run);
  const auto response = client.CollectGarbage(request);
  if (!response.ok()) return context.Fail("gc", response.status());
  Terminal& terminal = context.terminal;
  if (context.json()) {
    terminal.out << GarbageJson(*response, dry_run) << '\n';
    return kExitOk;
  }
  const Table table = MakeTable(*response, dry_run);
  table.Print(terminal.out, context.wide() ? 0 : terminal.out_columns, terminal.colour);
  return kExitOk;
}

}  // namespace

void AddGc(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("gc", "Removes scratch directories that dead processes have left");
  struct Options {
    bool dry_run = false;
  };
  auto options = std::make_shared<Options>();
  verb->add_flag("-n,--dry-run", options->dry_run, "Remove nothing, only say what would go");
  verb->add_flag_callback(
      "--json", [&context] { context.globals.output = Output::kJson; }, "As --output json");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return CollectGarbage(options->dry_run, context); };
  });
}

}  // namespace parkade::cli
