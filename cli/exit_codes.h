// The exit codes of `parkade`; docs/cli.md lists them for users, so a number never changes meaning.
#pragma once

namespace parkade::cli {

constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNotFound = 3;
constexpr int kExitState = 4;      // the process or daemon is not in the state that this needs
constexpr int kExitResources = 5;  // GPU, host or disk space, or a limit
constexpr int kExitUnreachable = 6;
constexpr int kExitDataLoss = 7;
constexpr int kExitTimeout = 124;        // as timeout(1)
constexpr int kExitCannotExecute = 126;  // `run`, as shells do
constexpr int kExitNoCommand = 127;      // `run`, as shells do
constexpr int kExitInterrupted = 130;

}  // namespace parkade::cli
