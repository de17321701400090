// `parkade ps`: lists the managed processes.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/selector.h"
#include "cli/state_cell.h"
#include "cli/table.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

using Align = Table::Align;

// Sums of a process over its GPUs.
struct Sums {
  explicit Sums(const v1::Process& process) {
    for (const auto& device : process.devices()) {
      resident += device.resident_bytes();
      requested += device.requested_bytes();
      foreign += device.foreign_bytes();
    }
  }
  uint64_t resident = 0, requested = 0, foreign = 0;
};

Table MakeTable(const v1::ListProcessesResponse& response, bool wide) {
  Table table;
  table.AddColumn("PID", Align::kRight);
  for (const char* name : {"JOB", "ROLE"}) table.AddColumn(name);
  if (wide) table.AddColumn("CELL");
  table.AddColumn("RANK", Align::kRight);
  table.AddColumn("STATE");
  for (const char* name : {"HBM", "HOST", "DISK"}) table.AddColumn(name, Align::kRight);
  if (wide) {
    for (const char* name :
         {"POOL", "RETAINED", "REQUESTED", "FOREIGN", "ALLOCATIONS", "GATED", "UID"}) {
      table.AddColumn(name, Align::kRight);
    }
    table.AddColumn("TURN");
    table.AddColumn("GPUS");
  }
  table.AddColumn("COMMAND");
  for (const auto& process : response.processes()) {
    const Sums sums(process);
    std::vector<Table::Cell> row{absl::StrCat(process.pid()), OrDash(process.job()),
                                 OrDash(process.role())};
    if (wide) row.push_back(OrDash(process.cell()));
    row.push_back(process.has_rank() ? absl::StrCat(process.rank()) : "-");
    row.push_back(StateCell(process));
    row.push_back(FormatBytes(sums.resident));
    row.push_back(FormatBytes(process.host_backup_bytes()));
    row.push_back(FormatBytes(process.disk_backup_bytes()));
    if (wide) {
      row.push_back(FormatBytes(process.host_pool_bytes()));
      row.push_back(FormatBytes(process.host_retained_bytes() + process.disk_retained_bytes()));
      row.push_back(FormatBytes(sums.requested));
      row.push_back(FormatBytes(sums.foreign));
      for (const uint64_t count :
           {process.allocation_count(), process.gated_threads(), uint64_t(process.uid())}) {
        row.push_back(absl::StrCat(count));
      }
      row.push_back(OrDash(TurnWord(process)));
      row.push_back(
          OrDash(absl::StrJoin(process.devices(), ",", [](std::string* out, const auto& device) {
            out->append(device.gpu_uuid());
          })));
    }
    row.push_back(process.command());
    table.AddRow(std::move(row));
  }
  return table;
}

// The selected PIDs that the answer does not have.
std::string Missing(const SelectorOptions& options, const v1::ListProcessesResponse& response) {
  std::vector<int32_t> missing;
  for (const int32_t pid : options.pids) {
    bool found = false;
    for (const auto& process : response.processes()) found |= process.pid() == pid;
    if (!found) missing.push_back(pid);
  }
  return absl::StrJoin(missing, ", ");
}

int Ps(const SelectorOptions& options, const Context& context) {
  const std::string what = absl::StrCat("ps", options.empty() ? "" : " ", options.Words());
  Client client(context.globals);
  const auto selector = MakeSelector(options, client);
  if (!selector.ok()) return context.Fail(what, selector.status());
  v1::ListProcessesRequest request;
  *request.mutable_selector() = *selector;
  const auto response = client.ListProcesses(request);
  if (!response.ok()) return context.Fail(what, response.status());

  Terminal& terminal = context.terminal;
  if (context.json()) {
    terminal.out << ProcessesJson(*response) << '\n';
  } else {
    const Table table = MakeTable(*response, context.wide());
    table.Print(terminal.out, context.wide() ? 0 : terminal.out_columns, terminal.colour);
    if (table.empty() && terminal.err_columns != 0) {
      terminal.err << "no processes; `parkade run -- CMD` starts one under Parkade\n";
    }
  }
  const std::string missing = Missing(options, *response);
  if (missing.empty()) return kExitOk;
  return context.Fail("ps", MakeStatus(absl::StatusCode::kNotFound,
                                       absl::StrCat("no such process: ", missing), "NO_PROCESS"));
}

}  // namespace

void AddPs(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("ps", "Lists processes with their state and memory");
  auto options = std::make_shared<SelectorOptions>();
  AddSelector(*verb, *options);
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Ps(*options, context); };
  });
}

}  // namespace parkade::cli
