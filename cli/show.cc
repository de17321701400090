// `parkade show PID`: all that is known about one process.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/by_tag.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/read.h"
#include "cli/setting.h"
#include "cli/state_cell.h"
#include "cli/table.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

using Align = Table::Align;

constexpr size_t kLargest = 20;  // allocations listed one by one unless all are asked for

// One line "name   text" of the head.
void PrintFact(Terminal& terminal, const char* name, const std::string& text) {
  terminal.out << absl::StreamFormat("%-11s %s\n", name, Printable(text));
}

void PrintHead(const v1::Process& process, Terminal& terminal) {
  PrintFact(terminal, "process", absl::StrCat(process.pid(), "  ", process.command()));
  PrintFact(terminal, "labels",
            absl::StrCat("job ", OrDash(process.job()), ", role ", OrDash(process.role()),
                         ", cell ", OrDash(process.cell()), ", rank ",
                         process.has_rank() ? absl::StrCat(process.rank()) : "-"));
  const Table::Cell state = StateCell(process);
  terminal.out << absl::StreamFormat("%-11s %s\n", "state",
                                     Paint(state.text, state.colour, terminal.colour));
  if (process.has_progress()) PrintFact(terminal, "moving", FormatProgress(process.progress()));
  if (process.takes_turns()) PrintFact(terminal, "turns", TurnWord(process));
  PrintFact(terminal, "user", absl::StrCat(process.uid()));
  for (const auto& device : process.devices()) {
    PrintFact(terminal, absl::StrCat("GPU ", device.ordinal()).c_str(),
              absl::StrCat(FormatBytes(device.resident_bytes()), " in HBM, ",
                           FormatBytes(device.requested_bytes()), " requested, ",
                           FormatBytes(device.foreign_bytes()), " foreign  ", device.gpu_uuid()));
    for (const auto& foreign : device.foreign()) {
      PrintFact(
          terminal, "  foreign",
          absl::StrCat(FormatBytes(foreign.bytes()), " ", foreign.kind(), ": ", foreign.advice()));
    }
  }
  PrintFact(terminal, "backups",
            absl::StrCat(FormatBytes(process.host_backup_bytes()), " in host memory (pool ",
                         FormatBytes(process.host_pool_bytes()), "), ",
                         FormatBytes(process.disk_backup_bytes()), " on disk"));
  PrintFact(terminal, "retained",
            absl::StrCat(FormatBytes(process.host_retained_bytes()), " of the pool, ",
                         FormatBytes(process.disk_retained_bytes()),
                         " on disk: backups of what is in HBM"));
  PrintFact(terminal, "pinned",
            absl::StrCat(FormatBytes(process.pinned_bytes()), " of host memory, by the program"));
  PrintFact(terminal, "scratch", OrDash(process.scratch_dir()));
  PrintFact(terminal, "threads",
            absl::StrCat(process.gated_threads(), " held at the gate",
                         process.gate_mode() == v1::GATE_MODE_OPEN ? ", which is open" : ""));
  PrintFact(terminal, "shim",
            absl::StrCat(OrDash(process.shim_version()), ", unhooked: ", process.unhooked_names(),
                         " names of the driver's that are newer"));
}

void PrintByTag(const v1::GetProcessResponse& response, Terminal& terminal) {
  Table table;
  for (const char* name : {"TAG", "CLASS", "PLACE"}) table.AddColumn(name);
  for (const char* name : {"COUNT", "SIZE"}) table.AddColumn(name, Align::kRight);
  for (const auto& [key, sum] : SumByTag(response)) {
    table.AddRow({key.tag, key.allocation_class, key.place, absl::StrCat(sum.count),
                  FormatBytes(sum.bytes)});
  }
  table.Print(terminal.out << '\n', terminal.out_columns, terminal.colour);
}

void PrintAllocations(const v1::GetProcessResponse& response, bool every, Terminal& terminal) {
  std::vector<const v1::Allocation*> largest;
  for (const auto& allocation : response.allocations()) largest.push_back(&allocation);
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto* a, const auto* b) { return a->bytes() > b->bytes(); });
  const size_t shown = every ? largest.size() : std::min(largest.size(), kLargest);
  Table table;
  table.AddColumn("ADDRESS");
  table.AddColumn("SIZE", Align::kRight);
  table.AddColumn("DEVICE", Align::kRight);
  for (const char* name : {"TAG", "CLASS", "PLACE"}) table.AddColumn(name);
  for (size_t i = 0; i < shown; ++i) {
    const v1::Allocation& a = *largest[i];
    table.AddRow({FormatAddress(a.address()), FormatBytes(a.bytes()), absl::StrCat(a.device()),
                  a.tag(), a.allocation_class(), a.place()});
  }
  table.Print(terminal.out << '\n', terminal.out_columns, terminal.colour);
  if (shown < largest.size()) {
    terminal.out << "the " << shown << " largest of " << largest.size()
                 << "; -o wide lists all of them\n";
  }
}

void PrintSettings(const v1::Process& process, Terminal& terminal) {
  Table table;
  for (const char* name : {"SETTING", "SOURCE", "VALUE"}) table.AddColumn(name);
  for (const std::string& line : process.settings()) {
    const Setting setting = ReadSetting(line);
    table.AddRow({OrDash(setting.name), OrDash(setting.source), setting.value});
  }
  if (!table.empty()) table.Print(terminal.out << '\n', terminal.out_columns, terminal.colour);
  if (!process.events().empty()) terminal.out << '\n';
  for (const std::string& event : process.events()) {
    terminal.out << "event: " << Printable(event) << '\n';
  }
  if (!process.warnings().empty()) terminal.out << '\n';
  for (const std::string& warning : process.warnings()) {
    terminal.out << Paint("warning", Colour::kYellow, terminal.colour) << ": " << Printable(warning)
                 << '\n';
  }
}

int Show(int32_t pid, const Context& context) {
  Client client(context.globals);
  const auto response = client.GetProcess(pid);
  if (!response.ok()) return context.Fail(absl::StrCat("show ", pid), response.status());
  Terminal& terminal = context.terminal;
  if (context.json()) {
    terminal.out << ProcessJson(*response) << '\n';
    return kExitOk;
  }
  PrintHead(response->process(), terminal);
  if (!response->allocations().empty()) {
    PrintByTag(*response, terminal);
    PrintAllocations(*response, context.wide(), terminal);
  }
  PrintSettings(response->process(), terminal);
  return kExitOk;
}

}  // namespace

void AddShow(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("show", "Shows one process with its allocations and settings");
  auto pid = std::make_shared<int32_t>(0);
  verb->add_option("PID", *pid, "Its process ID")->required()->check(IsPid())->type_name("");
  verb->callback(
      [&context, pid] { context.verb = [&context, pid] { return Show(*pid, context); }; });
}

}  // namespace parkade::cli
