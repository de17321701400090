// Puts an operation's figures in words.
#include "daemon/operation_text.h"

#include <cstdio>

#include "common/log.h"
#include "daemon/printable.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

std::string Seconds(double seconds) {
  char text[32];
  snprintf(text, sizeof text, "%.6f", seconds);
  return text;
}

// As a JSON string.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : Printable(text)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// The sums over all processes.
struct Sums {
  Bytes host = 0, disk = 0, elided = 0, released = 0;
  double wait = 0, gate = 0, drain = 0, move = 0;  // the longest: they go on at once

  explicit Sums(const Outcomes& outcomes) {
    for (const Outcome& o : outcomes) {
      if (o.already) continue;
      host += o.stats.host_bytes;
      disk += o.stats.disk_bytes;
      elided += o.stats.elided_bytes;
      released += o.stats.released_bytes;
      wait = std::max(wait, o.wait_seconds);
      gate = std::max(gate, double(o.stats.gate_ns) / 1e9);
      drain = std::max(drain, double(o.stats.drain_ns) / 1e9);
      move = std::max(move, double(o.stats.move_ns) / 1e9);
    }
  }
};

}  // namespace

const char* KindName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kPause:
      return "pause";
    case OperationKind::kResume:
      return "resume";
    case OperationKind::kHandoff:
      return "handoff";
    case OperationKind::kReserve:
      return "reserve";
    case OperationKind::kVerify:
      return "verify";
    case OperationKind::kPrefetch:
      return "prefetch";
    case OperationKind::kWriteBehind:
      return "write_behind";
  }
  return "";
}

const char* TargetOf(const Outcome& outcome) {
  const bool host = outcome.stats.host_bytes != 0, disk = outcome.stats.disk_bytes != 0;
  return host && disk ? "both" : host ? "host" : disk ? "disk" : "none";
}

std::vector<std::pair<const char*, double>> PhasesOf(const Outcome& outcome) {
  return {{"wait", outcome.wait_seconds},
          {"gate", double(outcome.stats.gate_ns) / 1e9},
          {"drain", double(outcome.stats.drain_ns) / 1e9},
          {"move", double(outcome.stats.move_ns) / 1e9},
          {"total", outcome.total_seconds}};
}

void LogEnded(const OperationView& operation) {
  const bool ok = operation.answer->ok();
  const Outcomes& outcomes = ok ? **operation.answer : operation.report;
  const Sums sums(outcomes);
  const double seconds = double(operation.ended_ns - operation.origin.begun_ns) / 1e9;
  char took[32];
  snprintf(took, sizeof took, "%.3f s", seconds);
  const std::string message =
      Cat(KindName(operation.kind), " ", operation.origin.id, " of ", operation.pids.size(),
          operation.pids.size() == 1 ? " process" : " processes", " by ", operation.origin.caller,
          ok ? ": done in " : ": failed after ", took,
          ok ? Cat(", host ", InUnits(sums.host), ", disk ", InUnits(sums.disk))
             : Cat(", ", ReasonOf(operation.answer->status()), ": ",
                   MessageOf(operation.answer->status())));
  const std::string members = Cat(
      R"("event": "operation", "operation": )", Quoted(operation.origin.id), R"(, "kind": ")",
      KindName(operation.kind), R"(", "caller": )", Quoted(operation.origin.caller),
      R"(, "request_id": )", Quoted(operation.origin.request_id), R"(, "pids": [)",
      Join(operation.pids, ", "), R"(], "ok": )", ok ? "true" : "false", R"(, "reason": )",
      Quoted(ok ? "" : ReasonOf(operation.answer->status())), R"(, "seconds": )", Seconds(seconds),
      R"(, "wait_seconds": )", Seconds(sums.wait), R"(, "gate_seconds": )", Seconds(sums.gate),
      R"(, "drain_seconds": )", Seconds(sums.drain), R"(, "move_seconds": )", Seconds(sums.move),
      R"(, "host_bytes": )", sums.host, R"(, "disk_bytes": )", sums.disk, R"(, "elided_bytes": )",
      sums.elided, R"(, "released_bytes": )", sums.released);
  LogWith(ok ? LogLevel::kInfo : LogLevel::kWarning, message.c_str(), members.c_str());
}

}  // namespace parkade::daemon
