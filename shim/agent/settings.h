// Settings: what the environment asks of the shim in this process.
#pragma once

#include <string>

#include "common/bytes.h"
#include "common/log.h"
#include "proto/wire.h"
#include "shim/agent/prewarm.h"

namespace parkade::shim {

struct Settings {
  std::string socket_path;  // of the daemon, for shims
  std::string job, role, cell;
  int rank = -1;  // -1: unknown
  wire::Policy policy = wire::Policy::kHost;
  wire::Elision elision = wire::Elision::kHash;
  std::string tag = "default";       // of memory that the application gives none
  std::string scratch_base;          // empty: the environment names none
  bool scratch_base_yields = false;  // to the daemon's own: it comes from SCRATCH
  // How long an allocation that finds no room waits for some.
  uint64_t alloc_wait_ms = 0;
  bool takes_turns = false;  // it may be paused for others that do, and asks when it is used
  Bytes prewarm = 0;         // host memory to be ready before the first pause, or Prewarm::kAuto
  bool poisons = false;      // what a pause discards comes back full of 0xCB
  LogLevel log_level = LogLevel::kWarning;  // of lines to the standard error
  // For `parkade show`: one line "name=value (source)" a setting, and one sentence for each value
  // that was refused; the default stands then.
  std::string lines;
  std::string warnings;
};

// Reads PARKADE_RUNTIME_DIR, PARKADE_JOB, _ROLE, _CELL, _RANK, PARKADE_POLICY, PARKADE_ELISION,
// PARKADE_TAG, PARKADE_SCRATCH_DIR, PARKADE_ALLOC_WAIT, PARKADE_PREWARM, PARKADE_POISON,
// PARKADE_WAKE, PARKADE_LOG; for labels also torchrun's, Slurm's and MPI's variables, for the
// scratch base also SCRATCH. `get` is getenv in the shim: call on an application thread, inside a
// hooked call, since getenv anywhere else races with the application's setenv.
Settings ReadSettings(const char* (*get)(const char* name));

// PARKADE=off: the shim does nothing in this process.
bool IsOff(const char* (*get)(const char* name));

}  // namespace parkade::shim
