// Declares the global options, lets a verb be picked, turns parse errors into one sentence and runs
// the verb.
#include "cli/app.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/error.h"
#include "cli/fan_out.h"
#include "cli/read.h"
#include "cli/verbs.h"
#include "cli/yaml.h"

namespace parkade::cli {
namespace {

constexpr char kAbout[] =
    "Pauses and resumes GPU processes: their bytes go to host memory or disk, the GPU becomes "
    "free.";
constexpr char kFooter[] =
    "Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 wrong state, 5 no room, 6 daemon\n"
    "unreachable, 7 data loss, 124 timeout, 130 interrupted. `parkade VERB --help` explains a "
    "verb.";

// Verbs that only look, and may do so again and again.
constexpr std::array kLooking = {"ps", "show", "gpus", "ops", "store"};
// To the upper left corner of a terminal, and nothing below.
constexpr char kClear[] = "\033[H\033[J";

// The texts of global options that are more than text, until the parser has checked them.
struct GlobalTexts {
  std::string timeout;
  std::string output;
  std::string again;
};

void AddGlobals(CLI::App& app, Globals& globals, GlobalTexts& texts) {
  app.add_option("--runtime-dir", globals.runtime_dir, "Directory of the daemon's sockets")
      ->envname("PARKADE_RUNTIME_DIR")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--address", globals.address, "A daemon on the network, by TLS")
      ->envname("PARKADE_ADDRESS")
      ->type_name("HOST:PORT");
  app.add_option("--nodes", globals.nodes,
                 "The daemons of many nodes: a file of HOST:PORT, slurm:JOB or k8s:SELECTOR")
      ->type_name("WHERE");
  app.add_option("--port", globals.port, "Port of the nodes that are listed without one")
      ->check(CLI::Range(1, 65535).description(""))
      ->type_name("PORT");
  const auto add_pem = [&](const char* name, std::string& path, const char* variable,
                           const char* about) {
    app.add_option(name, path, about)->envname(variable)->type_name("FILE");
  };
  add_pem("--cert", globals.certificate, "PARKADE_CERT", "The certificate to show it");
  add_pem("--key", globals.key, "PARKADE_KEY", "The key of that certificate");
  add_pem("--ca", globals.ca, "PARKADE_CA", "Who must have signed the daemon's certificate");
  app.add_option("--timeout", texts.timeout, "Longest wait for the daemon's answer, such as 30s")
      ->type_name("TIME")
      ->check(IsDuration());
  app.add_option("-o,--output", texts.output,
                 "table, wide (more columns), json or yaml (stable keys)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"table", "wide", "json", "yaml"}).description(""));
  app.add_flag(
         "--watch{2s}", texts.again,
         "Again every 2 s, or as --watch=TIME says, until Ctrl-C; of ps, show, gpus, ops, store")
      ->check(IsDuration());
}

void ReadGlobals(const CLI::App& app, const GlobalTexts& texts, Globals& globals) {
  globals.runtime_dir_given = app.count("--runtime-dir") != 0;
  if (!texts.timeout.empty()) globals.timeout = *ReadDuration(texts.timeout);
  if (texts.output == "table") globals.output = Output::kTable;
  if (texts.output == "wide") globals.output = Output::kWide;
  if (texts.output == "json") globals.output = Output::kJson;
  if (texts.output == "yaml") globals.output = Output::kYaml;
  if (!texts.again.empty()) globals.again = *ReadDuration(texts.again);
}

int FailToParse(const CLI::App& app, const CLI::ParseError& error, const Context& context) {
  const auto verbs = app.get_subcommands();
  const std::string verb = verbs.empty() ? "" : verbs[0]->get_name();
  std::string message = error.what();
  if (verb.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const auto strays = app.remaining();
    message = strays.empty() ? "no verb is given" : absl::StrCat("no verb \"", strays[0], "\"");
  }
  if (verb == "run" && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    message += "; the command stands after \"--\"";
  }
  absl::StrAppend(&message, "; `parkade", verb.empty() ? "" : " ", verb,
                  " --help` shows what there is");
  return context.Fail(verb, UsageError(message));
}

// Answers once or, with --watch, until it fails; a terminal shows the last answer alone.
int Run(const Context& context, const std::function<int()>& verb) {
  std::ostream& out = context.terminal.out;
  std::optional<YamlOutput> yaml;
  if (context.globals.output == Output::kYaml) yaml.emplace(out);
  if (context.globals.again == absl::ZeroDuration()) return verb();
  const bool clears = context.terminal.out_columns != 0 && !context.json();
  for (;;) {
    if (clears) out << kClear;
    const int code = verb();
    out.flush();
    if (code != kExitOk) return code;
    if (!out) return kExitFailed;  // main says why
    absl::SleepFor(context.globals.again);
    if (!clears && !context.json()) out << '\n';
  }
}

}  // namespace

int Context::Fail(std::string_view what, const absl::Status& status) const {
  terminal.err << Sentence(what, status) << std::endl;
  return ExitCodeOf(status);
}

int RunCommandLine(std::vector<std::string> arguments, Terminal& terminal) {
  Context context{terminal, {}, {}, {}};
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const bool has_command = dashes != arguments.end();
  if (has_command) context.command.assign(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());

  CLI::App app(kAbout, "parkade");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("parkade " PARKADE_VERSION));
  app.require_subcommand(1);
  app.fallthrough();  // global options are taken after the verb as well
  GlobalTexts texts;
  AddGlobals(app, context.globals, texts);
  AddRun(app, context);
  AddPs(app, context);
  AddShow(app, context);
  AddPause(app, context);
  AddResume(app, context);
  AddHandoff(app, context);
  AddWaitFree(app, context);
  AddGpus(app, context);
  AddReserve(app, context);
  AddRelease(app, context);
  AddBudget(app, context);
  AddVerify(app, context);
  AddPrefetch(app, context);
  AddStore(app, context);
  AddWatch(app, context);
  AddOps(app, context);
  AddCancel(app, context);
  AddGroup(app, context);
  AddGc(app, context);
  AddMark(app, context);
  AddReport(app, context);
  AddTop(app, context);
  AddDoctor(app, context);
  AddPlan(app, context);
  AddCheckpoint(app, context);
  AddCompletion(app, context);

  auto reversed = arguments;  // as the parser wants them
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(reversed);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version, terminal.out, terminal.err);
  } catch (const CLI::ParseError& error) {
    return FailToParse(app, error, context);
  }
  ReadGlobals(app, texts, context.globals);
  const std::string verb = app.get_subcommands().front()->get_name();
  if (has_command && verb != "run" && verb != "complete") {
    return context.Fail("", UsageError("only `parkade run` takes a command after \"--\""));
  }
  if (!texts.again.empty() && std::find(kLooking.begin(), kLooking.end(), verb) == kLooking.end()) {
    return context.Fail(verb,
                        UsageError(absl::StrCat("--watch is of ", absl::StrJoin(kLooking, ", "))));
  }
  return Run(context, [&] {
    return context.globals.nodes.empty() ? context.verb() : FanOut(verb, arguments, context);
  });
}

}  // namespace parkade::cli
