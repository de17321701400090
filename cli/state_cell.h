// How a process's state stands in tables.
#pragma once

#include "absl/strings/str_cat.h"
#include "cli/format.h"
#include "cli/table.h"

namespace parkade::cli {

inline Colour ColourOf(v1::ProcessState state) {
  switch (state) {
    case v1::PROCESS_STATE_RUNNING:
      return Colour::kGreen;
    case v1::PROCESS_STATE_FAILED:
    case v1::PROCESS_STATE_PARTLY_MOVED:
      return Colour::kRed;
    default:
      return Colour::kYellow;
  }
}

// "paused", with a word where it is so deep, and where the shim has no connection: what is shown is
// then its last.
inline Table::Cell StateCell(const v1::Process& process) {
  const std::string state = absl::StrCat(StateName(process.state()), process.deep() ? " deep" : "");
  if (process.connected()) return {state, ColourOf(process.state())};
  return {absl::StrCat(state, " (disconnected)"), Colour::kRed};
}

// Of one that takes turns: "out" for the turn of others, "asks" for memory that others have, both,
// or "takes". Empty: it takes none.
inline std::string TurnWord(const v1::Process& process) {
  if (!process.takes_turns()) return "";
  if (process.out_for_turn()) return process.asks_turn() ? "out, asks" : "out";
  return process.asks_turn() ? "asks" : "takes";
}

}  // namespace parkade::cli
