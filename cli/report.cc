// `parkade report`: pictures, tables and checks of what the node's memory did.
#include "cli/report.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/read.h"
#include "cli/verbs.h"
#include "common/bytes.h"

namespace parkade::cli {
namespace {

constexpr size_t kSlowest = 10;  // operations in the table

struct ReportOptions {
  std::vector<std::string> from;
  std::string last, phase, html, svg, trace, csv, csv_of = "host", save, chunk = "256M";
  bool check = false;

  bool writes() const { return !(html + svg + trace + csv + save).empty(); }
};

// Writes a file by `write`; "-" is standard output.
absl::Status ToFile(const std::string& path, const Context& context,
                    const std::function<absl::Status(std::ostream&)>& write) {
  if (path == "-") return write(context.terminal.out);
  std::ofstream file(path, std::ios::binary);
  if (!file) {
    return MakeStatus(absl::StatusCode::kPermissionDenied,
                      absl::StrCat("cannot write ", path, ": ", strerror(errno)), "NO_FILE");
  }
  if (auto s = write(file); !s.ok()) return s;
  if (file.flush()) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kDataLoss, absl::StrCat("cannot write all of ", path),
                    "NO_FILE");
}

// What the daemon remembers, also as it came to `save`, if that is a file.
absl::StatusOr<Recording> FromDaemon(const ReportOptions& options, const Context& context) {
  v1::GetTimelineRequest request;
  if (!options.last.empty()) {
    const absl::Time since = absl::Now() - *ReadDuration(options.last);
    request.mutable_since()->set_seconds(absl::ToUnixSeconds(since));
  }
  Client client(context.globals);
  RecordingReader reader;
  std::string node;
  bool good = true;
  const auto read = [&](std::ostream* save) {
    return client.GetTimeline(request, [&](const v1::TimelineEntry& entry) {
      if (save != nullptr) WriteEntry(entry, *save);
      if (entry.has_start()) node = entry.start().node();
      good &= reader.Add(entry);
    });
  };
  absl::Status status =
      options.save.empty()
          ? read(nullptr)
          : ToFile(options.save, context, [&](std::ostream& out) { return read(&out); });
  if (!status.ok()) return status;
  if (!good) {
    return MakeStatus(absl::StatusCode::kInternal, "the daemon's timeline is of another version",
                      "BAD_RECORDING");
  }
  return reader.Finish(node);
}

absl::StatusOr<Recordings> ReadAll(const ReportOptions& options, const Context& context) {
  Recordings recordings;
  for (const std::string& path : options.from) {
    auto recording = ReadRecording(path);
    if (!recording.ok()) return recording.status();
    recordings.push_back(std::move(*recording));
  }
  if (recordings.empty()) {
    auto recording = FromDaemon(options, context);
    if (!recording.ok()) return recording.status();
    recordings.push_back(std::move(*recording));
  }
  if (options.phase.empty()) return recordings;
  for (Recording& recording : recordings) {
    if (KeepPhase(options.phase, recording)) continue;
    return MakeStatus(absl::StatusCode::kNotFound,
                      absl::StrCat("no phase \"", options.phase, "\" in ", recording.name),
                      "NO_PHASE");
  }
  return recordings;
}

void PrintChanges(const Recording& recording, Terminal& terminal) {
  Table table;
  table.AddColumn("PHASE");
  table.AddColumn("TIMES", Table::Align::kRight);
  table.AddColumn("TAG");
  table.AddColumn("TIER");
  for (const char* name : {"BEFORE", "AFTER", "CHANGE"})
    table.AddColumn(name, Table::Align::kRight);
  for (const PhaseChange& change : PhaseChanges(recording)) {
    const double by = change.after - change.before;
    table.AddRow({Printable(change.phase), absl::StrCat(change.times), OrDash(change.tag),
                  change.tier, FormatBytes(uint64_t(change.before)),
                  FormatBytes(uint64_t(change.after)),
                  absl::StrCat(by > 0   ? "+"
                               : by < 0 ? "-"
                                        : "",
                               FormatBytes(uint64_t(by < 0 ? -by : by)))});
  }
  if (!table.empty()) table.Print(terminal.out << '\n', terminal.out_columns, terminal.colour);
}

void PrintSlowest(const Recording& recording, Terminal& terminal) {
  std::vector<const v1::Operation*> slowest;
  for (const auto& operation : recording.operations) slowest.push_back(&operation);
  std::stable_sort(slowest.begin(), slowest.end(),
                   [](auto* a, auto* b) { return SecondsOf(*a) > SecondsOf(*b); });
  Table table;
  for (const char* name : {"OPERATION", "KIND", "STATE"}) table.AddColumn(name);
  for (const char* name : {"TIME", "DRAIN", "MOVE", "HOST", "DISK"}) {
    table.AddColumn(name, Table::Align::kRight);
  }
  for (size_t i = 0; i < std::min(slowest.size(), kSlowest); ++i) {
    const v1::Operation& operation = *slowest[i];
    uint64_t host = 0, disk = 0;
    double drain = 0, move = 0;
    for (const auto& result : operation.results()) {
      host += result.host_bytes();
      disk += result.disk_bytes();
      drain = std::max(drain, result.drain_seconds());
      move = std::max(move, result.move_seconds());
    }
    const bool failed = operation.state() == v1::Operation::STATE_FAILED;
    table.AddRow({operation.id(), OperationKindName(operation.kind()),
                  failed ? Table::Cell(Printable(operation.failure().reason()), Colour::kRed)
                         : Table::Cell("done"),
                  FormatSeconds(SecondsOf(operation)), FormatSeconds(drain), FormatSeconds(move),
                  FormatBytes(host), FormatBytes(disk)});
  }
  if (!table.empty()) table.Print(terminal.out << '\n', terminal.out_columns, terminal.colour);
}

int PrintCheck(const Recordings& recordings, uint64_t chunk, const Context& context) {
  size_t passed = 0, failed = 0;
  for (const Recording& recording : recordings) {
    for (const Check& check : CheckRecording(recording, chunk)) {
      ++(check.ok ? passed : failed);
      if (check.ok && !context.wide()) continue;
      context.terminal.out << Paint(check.ok ? "pass" : "FAIL",
                                    check.ok ? Colour::kNone : Colour::kRed,
                                    context.terminal.colour)
                           << "  " << check.rule << "  " << Printable(check.subject) << ": "
                           << Printable(check.found) << '\n';
    }
  }
  context.terminal.out << passed << " of " << passed + failed << " checks passed\n";
  if (passed + failed == 0) {
    return context.Fail("report --check",
                        MakeStatus(absl::StatusCode::kFailedPrecondition,
                                   "there is no pause or handoff to check", "NO_OPERATION"));
  }
  return failed == 0 ? kExitOk : kExitFailed;
}

absl::Status Write(const ReportOptions& options, const Recordings& recordings,
                   const Context& context) {
  const auto always = [](auto write) {
    return [write](std::ostream& out) {
      write(out);
      return absl::OkStatus();
    };
  };
  const std::pair<const std::string*, std::function<absl::Status(std::ostream&)>> forms[] = {
      {&options.html, always([&](std::ostream& out) { WriteHtml(recordings, out); })},
      {&options.svg, always([&](std::ostream& out) { WriteSvg(recordings.front(), out); })},
      {&options.trace, always([&](std::ostream& out) { WriteTrace(recordings, out); })},
      {&options.csv,
       [&](std::ostream& out) { return WriteCsv(recordings.front(), options.csv_of, out); }},
  };
  for (const auto& [path, write] : forms) {
    if (path->empty()) continue;
    if (auto s = ToFile(*path, context, write); !s.ok()) return s;
  }
  return absl::OkStatus();
}

int Report(const ReportOptions& options, const Context& context) {
  const std::string what = "report";
  if (!options.from.empty() && !(options.save + options.last).empty()) {
    return context.Fail(what, UsageError("--save and --last are about the daemon's timeline, "
                                         "not about recordings"));
  }
  const auto chunk = ParseBytes(options.chunk);
  const auto recordings = ReadAll(options, context);
  if (!recordings.ok()) return context.Fail(what, recordings.status());
  if (auto s = Write(options, *recordings, context); !s.ok()) return context.Fail(what, s);
  if (options.check) return PrintCheck(*recordings, *chunk, context);
  if (context.json()) {
    context.terminal.out << ReportJson(*recordings) << '\n';
  } else if (!options.writes()) {
    Terminal& terminal = context.terminal;
    CompareTable(*recordings).Print(terminal.out, terminal.out_columns, terminal.colour);
    for (const Recording& recording : *recordings) {
      PrintChanges(recording, terminal);
      PrintSlowest(recording, terminal);
    }
  }
  return kExitOk;
}

}  // namespace

void AddReport(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "report", "Pictures, tables and checks of what the node's memory did, and what moved it");
  auto options = std::make_shared<ReportOptions>();
  verb->add_option("--from", options->from,
                   "A recording in the place of the daemon's timeline; several are compared")
      ->type_name("FILE");
  verb->add_option("--last", options->last, "No more of the timeline than this, such as 1h")
      ->type_name("TIME")
      ->check(IsDuration());
  verb->add_option("--phase", options->phase, "Only what was in a phase of that name")
      ->type_name("NAME");
  const auto add_file = [&](const char* name, std::string& path, const char* about) {
    verb->add_option(name, path, about)->type_name("FILE");
  };
  add_file("--html", options->html, "Writes a page with charts and tables; - is standard output");
  add_file("--svg", options->svg, "Writes a picture of the first recording");
  add_file("--trace", options->trace, "Writes a trace for ui.perfetto.dev");
  add_file("--csv", options->csv, "Writes time_s, used_gb, available_gb, percent, marker");
  verb->add_option("--csv-of", options->csv_of,
                   "Of host memory, of all gpus, or of one by its UUID")
      ->type_name("host|gpus|UUID")
      ->capture_default_str();
  add_file("--save", options->save, "Writes the timeline as a recording, for --from");
  verb->add_flag(
      "--check", options->check,
      "Holds every pause and handoff against what it promised; exit code 1 if one failed");
  verb->add_option("--chunk", options->chunk, "Staging memory of pauses to disk, for --check")
      ->type_name("SIZE")
      ->check(IsSize(uint64_t(16) << 20, uint64_t(4) << 30))
      ->capture_default_str();
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Report(*options, context); };
  });
}

}  // namespace parkade::cli
