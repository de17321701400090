// Lays out operations.
#include "cli/operation.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/table.h"

namespace parkade::cli {
namespace {

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

Table::Cell StateCell(const v1::Operation& operation) {
  const std::string state = OperationStateName(operation.state());
  switch (operation.state()) {
    case v1::Operation::STATE_DONE:
      return {state, Colour::kGreen};
    case v1::Operation::STATE_FAILED:
      return {state, Colour::kRed};
    default:
      return {operation.cancel_requested() ? absl::StrCat(state, " (to be cancelled)") : state,
              Colour::kYellow};
  }
}

std::string TimeOf(const v1::Operation& operation) {
  const absl::Time end = operation.has_end_time() ? ToTime(operation.end_time()) : absl::Now();
  return FormatSeconds(absl::ToDoubleSeconds(end - ToTime(operation.begin_time())));
}

}  // namespace

std::string OutcomeOf(const v1::Operation& operation) {
  if (operation.has_failure()) {
    const v1::Failure& failure = operation.failure();
    return Printable(absl::StrCat(failure.reason(), ": ", failure.message()));
  }
  if (operation.has_progress()) return FormatProgress(operation.progress());
  if (!operation.waiting().empty()) {
    const v1::GpuWait& wait = operation.waiting(0);
    std::string text = absl::StrCat("waits for ", FormatBytes(wait.needed_bytes()), ", ",
                                    FormatBytes(wait.free_bytes()), " free");
    const auto add = [&text](uint64_t bytes, const char* what) {
      if (bytes != 0) absl::StrAppend(&text, ", ", FormatBytes(bytes), " ", what);
    };
    add(wait.booked_bytes(), "booked");
    add(wait.reserved_bytes(), "reserved");
    add(wait.ahead_bytes(), "ahead");
    return absl::StrCat(text, ", position ", wait.position());
  }
  uint64_t moved = 0;
  for (const auto& result : operation.results()) moved += result.host_bytes() + result.disk_bytes();
  return operation.state() == v1::Operation::STATE_DONE ? FormatBytes(moved) : "-";
}

void PrintOperations(const OperationList& operations, const Context& context) {
  Terminal& terminal = context.terminal;
  if (context.json()) {
    terminal.out << OperationsJson(operations) << '\n';
    return;
  }
  Table table;
  for (const char* name : {"ID", "KIND", "STATE"}) table.AddColumn(name);
  table.AddColumn("TIME", Table::Align::kRight);
  table.AddColumn("PIDS");
  if (context.wide()) {
    for (const char* name : {"BEGAN", "CALLER", "REQUEST"}) table.AddColumn(name);
  }
  table.AddColumn("OUTCOME");
  for (const auto& operation : operations) {
    std::vector<Table::Cell> row{operation.id(), OperationKindName(operation.kind()),
                                 StateCell(operation), TimeOf(operation),
                                 OrDash(absl::StrJoin(operation.pids(), ","))};
    if (context.wide()) {
      row.push_back(FormatTime(operation.begin_time(), absl::LocalTimeZone()));
      row.push_back(Printable(operation.caller()));
      row.push_back(OrDash(Printable(operation.request_id())));
    }
    row.push_back(OutcomeOf(operation));
    table.AddRow(std::move(row));
  }
  table.Print(terminal.out, context.wide() ? 0 : terminal.out_columns, terminal.colour);
}

}  // namespace parkade::cli
