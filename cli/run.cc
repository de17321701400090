// `parkade run -- CMD`: becomes CMD with libparkade.so preloaded.
#include <errno.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/error.h"
#include "cli/preload.h"
#include "cli/read.h"
#include "cli/verbs.h"
#include "proto/wire.h"

namespace parkade::cli {
namespace {

struct RunOptions {
  bool no_park = false;
  bool wake = false;
  std::string job, role, cell, rank, policy, scratch_dir;
};

struct Variable {
  const char* name;
  const std::string RunOptions::*value;
};

constexpr Variable kVariables[] = {
    {"PARKADE_JOB", &RunOptions::job},       {"PARKADE_ROLE", &RunOptions::role},
    {"PARKADE_CELL", &RunOptions::cell},     {"PARKADE_RANK", &RunOptions::rank},
    {"PARKADE_POLICY", &RunOptions::policy}, {"PARKADE_SCRATCH_DIR", &RunOptions::scratch_dir},
};

bool IsSwitchedOff() {
  const char* value = getenv("PARKADE");
  return value != nullptr && strcmp(value, "off") == 0;
}

// The parser never sees the command, so it cannot name it in the usage line.
class RunFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: parkade run [OPTIONS] -- CMD [ARG...]\n";
  }
};

absl::Status CheckUsage(const RunOptions& options, const Context& context) {
  if (context.command.empty() || context.command[0].empty()) {
    return UsageError("no command: it stands after \"--\", as in `parkade run -- python train.py`");
  }
  if (context.globals.output) return UsageError("-o has no effect: the output is the command's");
  if (context.globals.timeout) return UsageError("--timeout has no effect: no daemon is asked");
  if (!options.no_park) return absl::OkStatus();
  if (options.wake) return UsageError("--no-park leaves Parkade out: --wake has no effect");
  for (const Variable& variable : kVariables) {
    if ((options.*variable.value).empty()) continue;
    return UsageError("--no-park leaves Parkade out: labels, policy and scratch have no effect");
  }
  return absl::OkStatus();
}

bool IsZero(const char* variable) {
  const char* value = getenv(variable);
  return value != nullptr && strcmp(value, "0") == 0;
}

// A hint, where launchers say that this is one of several ranks.
void AdviseOnNccl(std::ostream& err) {
  if (IsZero("NCCL_GRAPH_REGISTER") && IsZero("NCCL_LOCAL_REGISTER")) return;
  for (const char* variable : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    const char* value = getenv(variable);
    int64_t ranks = 0;
    if (value == nullptr || !absl::SimpleAtoi(value, &ranks) || ranks < 2) continue;
    err << "parkade: run: one of " << ranks << " ranks (" << variable
        << "): with NCCL_GRAPH_REGISTER=0 and NCCL_LOCAL_REGISTER=0 NCCL registers no memory by "
           "itself, and a pause can move all of it"
        << std::endl;
    return;
  }
}

absl::Status SetPreload(const std::string& program) {
  const auto library = FindLibrary();
  if (!library.ok()) return library.status();
  if (auto s = CheckLibrary(*library); !s.ok()) return s;
  if (auto s = CheckTakesPreload(program); !s.ok()) return s;
  const char* before = getenv("LD_PRELOAD");
  const auto preload = MergePreload(before == nullptr ? "" : before, *library);
  if (!preload.ok()) return preload.status();
  setenv("LD_PRELOAD", preload->c_str(), 1);
  return absl::OkStatus();
}

void SetEnvironment(const RunOptions& options, const Globals& globals) {
  for (const Variable& variable : kVariables) {
    const std::string& value = options.*variable.value;
    if (!value.empty()) setenv(variable.name, value.c_str(), 1);
  }
  if (options.wake) setenv("PARKADE_WAKE", "1", 1);
  if (!globals.runtime_dir_given) return;
  // The command may change its directory before it makes a context.
  std::error_code error;
  const auto absolute = std::filesystem::absolute(globals.runtime_dir, error);
  setenv("PARKADE_RUNTIME_DIR", absolute.c_str(), 1);
}

int Run(const RunOptions& options, const Context& context) {
  if (auto s = CheckUsage(options, context); !s.ok()) return context.Fail("run", s);
  const std::string& command = context.command[0];
  if (options.no_park) {
    setenv("PARKADE", "off", 1);
  } else if (IsSwitchedOff()) {
    context.terminal.err << "parkade: run: PARKADE=off is set, so the command runs without Parkade"
                         << std::endl;
  } else {
    if (auto s = SetPreload(LookUp(command)); !s.ok()) return context.Fail("run", s);
    SetEnvironment(options, context.globals);
    AdviseOnNccl(context.terminal.err);
  }
  context.terminal.out.flush();
  std::vector<char*> arguments;
  for (const std::string& argument : context.command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(command.c_str(), arguments.data());
  const int why = errno;
  context.Fail("run", absl::InternalError(absl::StrCat(command, ": ", strerror(why))));
  return why == ENOENT ? kExitNoCommand : kExitCannotExecute;
}

}  // namespace

void AddRun(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("run", "Runs a command, and all it starts, under Parkade");
  verb->formatter(std::make_shared<RunFormatter>());
  auto options = std::make_shared<RunOptions>();
  verb->add_flag("--no-park", options->no_park, "Run it without Parkade (PARKADE=off)");
  verb->add_option("--job", options->job, "Label: the job it belongs to (PARKADE_JOB)")
      ->check(IsLabel(sizeof(wire::Hello::job) - 1))
      ->type_name("JOB");
  verb->add_option("--role", options->role, "Label: actor, critic, rollout, ... (PARKADE_ROLE)")
      ->check(IsLabel(sizeof(wire::Hello::role) - 1))
      ->type_name("ROLE");
  verb->add_option("--cell", options->cell, "Label: the cell it belongs to (PARKADE_CELL)")
      ->check(IsLabel(sizeof(wire::Hello::cell) - 1))
      ->type_name("CELL");
  verb->add_option("--rank", options->rank,
                   "Label: its global rank (PARKADE_RANK); else from torchrun, Slurm or MPI")
      ->check(IsRank())
      ->type_name("N");
  verb->add_option("--policy", options->policy,
                   "Where a pause that names no policy puts bytes: host (default), disk or auto "
                   "(PARKADE_POLICY)")
      ->check(CLI::IsMember({"host", "disk", "auto"}))
      ->type_name("POLICY");
  verb->add_option("--scratch-dir", options->scratch_dir,
                   "Directory for bytes on disk (PARKADE_SCRATCH_DIR)")
      ->check(IsDirectoryName())
      ->type_name("DIR");
  verb->add_flag(
      "--wake", options->wake,
      "Share GPUs in turns with other programs that do: this one is paused when they lack "
      "memory and comes back when it is used (PARKADE_WAKE=1)");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Run(*options, context); };
  });
}

}  // namespace parkade::cli
