// `parkade doctor`: looks at all that a pause needs on this node, and names the line that mends
// what is missing.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/doctor_checks.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/read.h"
#include "cli/table.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

struct DoctorOptions {
  std::vector<std::string> scratch_dirs;
  std::optional<pid_t> root;
};

NodeAnswers AskDaemon(const Globals& globals) {
  NodeAnswers answers;
  Client client(globals);
  const auto node = client.GetNode();
  answers.status = node.status();
  if (!node.ok()) return answers;
  answers.node = *node;
  const auto list = client.ListProcesses({});
  answers.status = list.status();
  if (list.ok()) answers.processes = {list->processes().begin(), list->processes().end()};
  return answers;
}

Findings CheckDisks(const NodeAnswers& answers, std::vector<std::string> named) {
  Findings found;
  const auto add = [&](const std::string& path, const v1::ScratchBase* known) {
    for (Finding& finding : CheckScratch(path, known)) found.push_back(std::move(finding));
  };
  for (const auto& base : answers.node.scratch_bases()) {
    add(base.path(), &base);
    named.erase(std::remove(named.begin(), named.end(), base.path()), named.end());
  }
  for (const std::string& path : named) add(path, nullptr);
  if (found.empty()) {
    found.push_back({Level::kNote, "disk",
                     "no scratch directory is known: pauses go to host memory alone",
                     "[scratch] dirs = [\"/nvme/parkade\"]  # in /etc/parkade/parkaded.toml"});
  }
  return found;
}

Findings CheckAll(const DoctorOptions& options, const Globals& globals) {
  const KernelFiles files;
  // First the driver, in a child: later there are gRPC's threads.
  Findings all = CheckDriver(files, AskDriver(absl::Seconds(10)));
  const NodeAnswers answers = AskDaemon(globals);
  for (const Findings& part :
       {CheckHugePages(files), CheckMemlock(files), CheckIoUring(files),
        CheckDisks(answers, options.scratch_dirs), CheckSockets(globals.runtime_dir),
        CheckDaemon(answers, PARKADE_VERSION), CheckNeed(answers), CheckLibraryFile(),
        CheckTree(files, options.root), CheckEnvironment(files, options.root)}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

size_t Count(const Findings& findings, Level level) {
  return size_t(std::count_if(findings.begin(), findings.end(),
                              [&](const Finding& finding) { return finding.level == level; }));
}

Colour ColourOf(Level level) {
  switch (level) {
    case Level::kOk:
      return Colour::kGreen;
    case Level::kNote:
      return Colour::kNone;
    case Level::kWarning:
      return Colour::kYellow;
    case Level::kError:
      break;
  }
  return Colour::kRed;
}

// A line to type must not be cut, so the table is as wide as it needs.
void PrintTable(const Findings& findings, Terminal& terminal) {
  Table table;
  for (const char* name : {"LEVEL", "ABOUT", "FINDING"}) table.AddColumn(name);
  for (const Finding& finding : findings) {
    table.AddRow({{LevelName(finding.level), ColourOf(finding.level)}, finding.area, finding.text});
    if (!finding.fix.empty()) table.AddRow({"", "", absl::StrCat("  -> ", finding.fix)});
  }
  table.Print(terminal.out, 0, terminal.colour);
}

std::string FindingsJson(const Findings& findings) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back(Json{{"level", LevelName(finding.level)},
                        {"about", finding.area},
                        {"finding", finding.text},
                        {"fix", finding.fix.empty() ? Json() : Json(finding.fix)}});
  }
  return Json{{"schema_version", kSchemaVersion},
              {"errors", Count(findings, Level::kError)},
              {"warnings", Count(findings, Level::kWarning)},
              {"findings", list}}
      .dump(2, ' ', false, Json::error_handler_t::replace);
}

int Doctor(const DoctorOptions& options, const Context& context) {
  if (!context.globals.address.empty()) {
    return context.Fail("doctor", UsageError("doctor looks at the node that it runs on: --address "
                                             "has no effect"));
  }
  const Findings findings = CheckAll(options, context.globals);
  if (context.json()) {
    context.terminal.out << FindingsJson(findings) << '\n';
  } else {
    PrintTable(findings, context.terminal);
  }
  const size_t errors = Count(findings, Level::kError);
  if (errors == 0) return kExitOk;
  return context.Fail("doctor", MakeStatus(absl::StatusCode::kInternal,
                                           absl::StrCat(errors, errors == 1 ? " error" : " errors",
                                                        " in the way of pauses on this node"),
                                           "NOT_READY"));
}

}  // namespace

void AddDoctor(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "doctor", "Looks at all that a pause needs on this node, and says how to mend it");
  auto options = std::make_shared<DoctorOptions>();
  verb->add_option("--scratch-dir", options->scratch_dirs,
                   "One more directory for backups to look at; repeatable")
      ->check(IsDirectoryName())
      ->type_name("DIR");
  verb->add_option("--pid", options->root,
                   "Look at every process beneath this one for the library and its environment")
      ->check(IsPid())
      ->type_name("PID");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Doctor(*options, context); };
  });
}

}  // namespace parkade::cli
