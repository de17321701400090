// Lays out the measured figures of pauses and resumes.
#include "cli/transition.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/state_cell.h"
#include "cli/table.h"

namespace parkade::cli {
namespace {

using Align = Table::Align;
using Field = uint64_t (v1::TransitionResult::*)() const;

bool AnyHas(const Results& results, Field field) {
  for (const auto& result : results) {
    if ((result.*field)() != 0) return true;
  }
  return false;
}

Table MovesTable(const Results& results, bool wide) {
  struct BytesColumn {
    const char* name;
    Field field;
    bool shown;
  };
  // What was lost or left behind is shown whenever there is any.
  const bool discarded = wide || AnyHas(results, &v1::TransitionResult::discarded_bytes);
  const bool elided = wide || AnyHas(results, &v1::TransitionResult::elided_bytes);
  const bool kept = wide || AnyHas(results, &v1::TransitionResult::kept_bytes);
  const BytesColumn all_columns[] = {
      {"HOST", &v1::TransitionResult::host_bytes, true},
      {"DISK", &v1::TransitionResult::disk_bytes, true},
      {"ELIDED", &v1::TransitionResult::elided_bytes, elided},
      {"DISCARDED", &v1::TransitionResult::discarded_bytes, discarded},
      {"KEPT", &v1::TransitionResult::kept_bytes, kept},
      {"RELEASED", &v1::TransitionResult::released_bytes, wide},
  };
  Table table;
  table.AddColumn("PID", Align::kRight);
  table.AddColumn("STATE");
  std::vector<Field> fields;
  for (const BytesColumn& column : all_columns) {
    if (!column.shown) continue;
    table.AddColumn(column.name, Align::kRight);
    fields.push_back(column.field);
  }
  if (wide) table.AddColumn("RESIDUE", Align::kRight);
  for (const char* name : {"GATE", "DRAIN", "MOVE", "TOTAL", "RATE"}) {
    table.AddColumn(name, Align::kRight);
  }
  for (const auto& result : results) {
    std::vector<Table::Cell> row{absl::StrCat(result.pid())};
    row.emplace_back(absl::StrCat(StateName(result.state()), result.already() ? " already" : ""),
                     ColourOf(result.state()));
    for (const Field field : fields) row.push_back(FormatBytes((result.*field)()));
    // Zero means that the driver did not say.
    const uint64_t residue = result.residue_bytes();
    if (wide) row.push_back(residue == 0 ? "-" : FormatBytes(residue));
    for (const double seconds : {result.gate_seconds(), result.drain_seconds(),
                                 result.move_seconds(), result.total_seconds()}) {
      row.push_back(FormatSeconds(seconds));
    }
    row.push_back(FormatRate(result.host_bytes() + result.disk_bytes(), result.move_seconds()));
    table.AddRow(std::move(row));
  }
  return table;
}

// What the driver's checkpoint came to, of those that it was about.
Table DeepTable(const Results& results) {
  Table table;
  table.AddColumn("PID", Align::kRight);
  table.AddColumn("DEEP");
  for (const char* name : {"FREED", "TIME"}) table.AddColumn(name, Align::kRight);
  table.AddColumn("WHY NOT");
  for (const auto& result : results) {
    if (!result.has_deep()) continue;
    const v1::DeepStep& deep = result.deep();
    const bool refused = deep.has_refusal();
    table.AddRow({absl::StrCat(result.pid()),
                  deep.deep() ? "yes"
                  : refused   ? "no"
                              : "undone",
                  refused ? "-" : FormatBytes(deep.freed_bytes()),
                  refused ? "-" : FormatSeconds(deep.seconds()),
                  refused ? absl::StrCat(Printable(deep.refusal().message()), " (",
                                         deep.refusal().reason(), ")")
                          : "-"});
  }
  return table;
}

std::string Change(uint64_t before, uint64_t after) {
  if (after >= before) return absl::StrCat(after > before ? "+" : "", FormatBytes(after - before));
  return absl::StrCat("-", FormatBytes(before - after));
}

Table GpuTable(const Results& results) {
  Table table;
  table.AddColumn("PID", Align::kRight);
  for (const char* name : {"FREE BEFORE", "FREE AFTER", "CHANGE", "EXPECTED"}) {
    table.AddColumn(name, Align::kRight);
  }
  table.AddColumn("GPU");
  for (const auto& result : results) {
    for (const auto& gpu : result.gpus()) {
      table.AddRow({absl::StrCat(result.pid()), FormatBytes(gpu.free_before_bytes()),
                    FormatBytes(gpu.free_after_bytes()),
                    Change(gpu.free_before_bytes(), gpu.free_after_bytes()),
                    FormatBytes(gpu.expected_bytes()), gpu.uuid()});
    }
  }
  return table;
}

}  // namespace

void PrintResults(const Results& results, const Context& context) {
  Terminal& terminal = context.terminal;
  if (context.json()) {
    terminal.out << ResultsJson(results) << '\n';
    return;
  }
  const size_t width = context.wide() ? 0 : terminal.out_columns;
  MovesTable(results, context.wide()).Print(terminal.out, width, terminal.colour);
  const Table deep = DeepTable(results);
  // A sentence is not cut to the terminal's width.
  if (!deep.empty()) deep.Print(terminal.out << '\n', 0, terminal.colour);
  const Table gpus = GpuTable(results);
  if (!gpus.empty()) gpus.Print(terminal.out << '\n', width, terminal.colour);
  std::set<std::string> behind;
  for (const auto& result : results) behind.insert(result.write_behind_id());
  behind.erase("");
  for (const std::string& id : behind) {
    terminal.out << "\nwhat is in host memory goes on to disk: operation " << id << '\n';
  }
}

}  // namespace parkade::cli
