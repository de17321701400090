// The list of verbs: one function each, which adds its subcommand and options to `app` and sets
// context.verb when the parser picks it. cli/README.md says how to add one.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/context.h"

namespace parkade::cli {

void AddRun(CLI::App& app, Context& context);
void AddPs(CLI::App& app, Context& context);
void AddShow(CLI::App& app, Context& context);
void AddPause(CLI::App& app, Context& context);
void AddResume(CLI::App& app, Context& context);
void AddHandoff(CLI::App& app, Context& context);
void AddWaitFree(CLI::App& app, Context& context);
void AddGpus(CLI::App& app, Context& context);
void AddReserve(CLI::App& app, Context& context);
void AddRelease(CLI::App& app, Context& context);
void AddBudget(CLI::App& app, Context& context);
void AddVerify(CLI::App& app, Context& context);
void AddPrefetch(CLI::App& app, Context& context);
void AddStore(CLI::App& app, Context& context);
void AddOps(CLI::App& app, Context& context);
void AddCancel(CLI::App& app, Context& context);
void AddGroup(CLI::App& app, Context& context);
void AddGc(CLI::App& app, Context& context);
void AddWatch(CLI::App& app, Context& context);
void AddMark(CLI::App& app, Context& context);
void AddReport(CLI::App& app, Context& context);
void AddTop(CLI::App& app, Context& context);
void AddDoctor(CLI::App& app, Context& context);
void AddPlan(CLI::App& app, Context& context);
void AddCheckpoint(CLI::App& app, Context& context);
void AddCompletion(CLI::App& app, Context& context);

}  // namespace parkade::cli
