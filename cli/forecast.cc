// Lays out forecasts.
#include "cli/forecast.h"

#include "absl/strings/str_cat.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/table.h"

namespace parkade::cli {
namespace {

absl::Status StatusOf(const v1::Failure& failure) {
  return MakeStatus(absl::StatusCode(failure.code()), failure.message(), failure.reason());
}

Table TableOf(const v1::Forecast& forecast) {
  Table table;
  table.AddColumn("PID", Table::Align::kRight);
  table.AddColumn("TAG");
  for (const char* name : {"HOST", "DISK", "DISCARDED", "KEPT", "GPU MEMORY"}) {
    table.AddColumn(name, Table::Align::kRight);
  }
  for (const auto& process : forecast.processes()) {
    const std::string pid = absl::StrCat(process.pid());
    if (process.already()) {
      table.AddRow({pid, "already there", "-", "-", "-", "-", "-"});
      continue;
    }
    for (const auto& tag : process.tags()) {
      table.AddRow({pid, Printable(tag.tag()), FormatBytes(tag.host_bytes()),
                    FormatBytes(tag.disk_bytes()), FormatBytes(tag.discarded_bytes()),
                    FormatBytes(tag.kept_bytes()), "-"});
    }
    if (process.gpus().empty()) continue;
    uint64_t needed = 0;
    for (const auto& gpu : process.gpus()) needed += gpu.needed_bytes();
    table.AddRow({pid, "-", FormatBytes(process.host_bytes()), FormatBytes(process.disk_bytes()),
                  "-", "-", FormatBytes(needed)});
  }
  return table;
}

}  // namespace

int PrintForecast(const v1::Forecast& forecast, const Context& context) {
  Terminal& terminal = context.terminal;
  if (context.json()) {
    terminal.out << ForecastJson(forecast) << '\n';
  } else {
    const Table table = TableOf(forecast);
    if (!table.empty()) {
      table.Print(terminal.out, context.wide() ? 0 : terminal.out_columns, terminal.colour);
    }
    if (forecast.seconds() > 0) {
      terminal.out << "about " << FormatSeconds(forecast.seconds()) << '\n';
    }
    for (const auto& refusal : forecast.refusals()) {
      terminal.out << "refused: " << Printable(refusal.message()) << " (" << refusal.reason()
                   << ")\n";
    }
  }
  if (forecast.refusals().empty()) return kExitOk;
  return ExitCodeOf(StatusOf(forecast.refusals(0)));
}

}  // namespace parkade::cli
