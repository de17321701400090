// `parkade budget`: shows or sets how much host memory and disk backups may take.
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/read.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "common/bytes.h"

namespace parkade::cli {
namespace {

struct BudgetOptions {
  std::string job;
  std::string host;
  std::string disk;
};

// A size, or "none".
CLI::Validator IsLimit() {
  return CLI::Validator(
      [](std::string& text) {
        return text == "none" ? std::string() : IsSize(1, 1024 * 1024_GiB)(text);
      },
      "");
}

uint64_t ReadLimit(const std::string& text) { return text == "none" ? 0 : *ParseBytes(text); }

int Print(const Budgets& budgets, const Context& context) {
  Terminal& terminal = context.terminal;
  if (context.json()) {
    terminal.out << BudgetsJson(budgets) << '\n';
    return kExitOk;
  }
  const auto limit = [](uint64_t bytes) { return bytes == 0 ? "-" : FormatBytes(bytes); };
  Table table;
  table.AddColumn("BUDGET");
  for (const char* name : {"HOST", "USED", "DISK", "USED"}) {
    table.AddColumn(name, Table::Align::kRight);
  }
  table.AddColumn("STATE");
  for (const v1::Budget& budget : budgets) {
    table.AddRow({budget.job().empty() ? "node" : absl::StrCat("job ", Printable(budget.job())),
                  limit(budget.host_bytes()), FormatBytes(budget.host_used_bytes()),
                  limit(budget.disk_bytes()), FormatBytes(budget.disk_used_bytes()),
                  budget.over() ? Table::Cell("over", Colour::kYellow) : Table::Cell("ok")});
  }
  table.Print(terminal.out, context.wide() ? 0 : terminal.out_columns, terminal.colour);
  return kExitOk;
}

int Budget(const BudgetOptions& options, const Context& context) {
  Client client(context.globals);
  if (options.host.empty() && options.disk.empty()) {
    const auto node = client.GetNode();
    if (!node.ok()) return context.Fail("budget", node.status());
    if (options.job.empty()) return Print(node->budgets(), context);
    Budgets of_job;
    for (const v1::Budget& budget : node->budgets()) {
      if (budget.job() == options.job) *of_job.Add() = budget;
    }
    if (!of_job.empty()) return Print(of_job, context);
    return context.Fail("budget",
                        MakeStatus(absl::StatusCode::kNotFound,
                                   absl::StrCat("the job ", options.job, " has none"), ""));
  }
  v1::SetBudgetRequest request;
  request.set_job(options.job);
  if (!options.host.empty()) request.set_host_bytes(ReadLimit(options.host));
  if (!options.disk.empty()) request.set_disk_bytes(ReadLimit(options.disk));
  const auto response = client.SetBudget(request);
  if (!response.ok()) return context.Fail("budget", response.status());
  Budgets one;
  *one.Add() = response->budget();
  return Print(one, context);
}

}  // namespace

void AddBudget(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("budget", "Shows or sets what backups may take of host memory and disks");
  auto options = std::make_shared<BudgetOptions>();
  verb->add_option("--job", options->job, "Of this job; without it of the whole node")
      ->check(IsLabel(63))
      ->type_name("JOB");
  verb->add_option("--host", options->host, "Host memory; `none`: no budget")
      ->check(IsLimit())
      ->type_name("SIZE");
  verb->add_option("--disk", options->disk, "Files; likewise")->check(IsLimit())->type_name("SIZE");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Budget(*options, context); };
  });
}

}  // namespace parkade::cli
