// `parkade gpus`: who has each GPU's memory, who will have it, and who waits for it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

using Align = Table::Align;

Table GpuTable(const v1::GetNodeResponse& node) {
  Table table;
  table.AddColumn("GPU", Align::kRight);
  for (const char* name :
       {"TOTAL", "FREE", "BOOKED", "RESERVED", "MANAGED", "UNEXPLAINED", "WAITING"}) {
    table.AddColumn(name, Align::kRight);
  }
  table.AddColumn("UUID");
  for (int i = 0; i < node.gpus_size(); ++i) {
    const v1::Gpu& gpu = node.gpus(i);
    table.AddRow({absl::StrCat(i), FormatBytes(gpu.total_bytes()), FormatBytes(gpu.free_bytes()),
                  FormatBytes(gpu.booked_bytes()), FormatBytes(gpu.reserved_bytes()),
                  FormatBytes(gpu.managed_bytes()), FormatBytes(gpu.unexplained_bytes()),
                  absl::StrCat(gpu.waiting_size()), gpu.uuid()});
  }
  return table;
}

Table UserTable(const v1::GetNodeResponse& node) {
  Table table;
  for (const char* name : {"GPU", "PID", "USED", "MANAGED", "REST"}) {
    table.AddColumn(name, Align::kRight);
  }
  for (int i = 0; i < node.gpus_size(); ++i) {
    for (const v1::GpuUser& user : node.gpus(i).users()) {
      const uint64_t managed = user.managed_bytes();
      const uint64_t rest = user.used_bytes() - std::min(user.used_bytes(), managed);
      table.AddRow({absl::StrCat(i), absl::StrCat(user.pid()), FormatBytes(user.used_bytes()),
                    user.managed() ? FormatBytes(managed) : "-", FormatBytes(rest)});
    }
  }
  return table;
}

Table WaiterTable(const v1::GetNodeResponse& node) {
  Table table;
  for (const char* name : {"GPU", "POSITION", "PRIORITY", "NEEDED", "WAITED"}) {
    table.AddColumn(name, Align::kRight);
  }
  table.AddColumn("OPERATION");
  for (int i = 0; i < node.gpus_size(); ++i) {
    for (const v1::Waiter& waiter : node.gpus(i).waiting()) {
      table.AddRow({absl::StrCat(i), absl::StrCat(waiter.position()),
                    absl::StrCat(waiter.priority()), FormatBytes(waiter.needed_bytes()),
                    FormatSeconds(waiter.waited_seconds()), OrDash(waiter.operation_id())});
    }
  }
  return table;
}

Table ReservationTable(const v1::GetNodeResponse& node) {
  Table table;
  table.AddColumn("GPU", Align::kRight);
  table.AddColumn("RESERVATION");
  for (const char* name : {"SIZE", "LEFT", "PID"}) table.AddColumn(name, Align::kRight);
  for (const char* name : {"OWNER", "LABEL"}) table.AddColumn(name);
  for (int i = 0; i < node.gpus_size(); ++i) {
    for (const v1::Reservation& kept : node.gpus(i).reservations()) {
      const auto& left = kept.time_left();
      const double seconds = double(left.seconds()) + double(left.nanos()) * 1e-9;
      table.AddRow({absl::StrCat(i), kept.id(), FormatBytes(kept.bytes()),
                    kept.has_time_left() ? FormatSeconds(seconds) : "-",
                    kept.pid() == 0 ? "-" : absl::StrCat(kept.pid()), Printable(kept.owner()),
                    OrDash(Printable(kept.label()))});
    }
  }
  return table;
}

int Gpus(const Context& context) {
  Client client(context.globals);
  const auto node = client.GetNode();
  if (!node.ok()) return context.Fail("gpus", node.status());
  Terminal& terminal = context.terminal;
  if (context.json()) {
    terminal.out << GpusJson(*node) << '\n';
    return kExitOk;
  }
  if (node->gpus().empty()) {
    return context.Fail(
        "gpus", MakeStatus(absl::StatusCode::kFailedPrecondition,
                           absl::StrCat("the driver names no GPU: ", Printable(node->gpu_source())),
                           "NO_FIGURES"));
  }
  const size_t width = context.wide() ? 0 : terminal.out_columns;
  GpuTable(*node).Print(terminal.out, width, terminal.colour);
  for (const Table& table : {UserTable(*node), WaiterTable(*node), ReservationTable(*node)}) {
    if (!table.empty()) table.Print(terminal.out << '\n', width, terminal.colour);
  }
  return kExitOk;
}

}  // namespace

void AddGpus(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "gpus", "Shows who has each GPU's memory, who will have it, and who waits for it");
  verb->callback([&context] { context.verb = [&context] { return Gpus(context); }; });
}

}  // namespace parkade::cli
