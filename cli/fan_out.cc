// Starts the runs, in two phases where bytes move, and puts their answers together.
#include "cli/fan_out.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/child.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/nodes.h"
#include "cli/table.h"

namespace parkade::cli {
namespace {

using Json = nlohmann::ordered_json;
using Arguments = std::vector<std::string>;

constexpr size_t kMostAtOnce = 128;
constexpr std::array kMoving = {"pause", "resume", "handoff"};
constexpr std::array kOthers = {"ps",    "show", "gpus",   "budget", "verify", "prefetch",
                                "store", "ops",  "cancel", "group",  "gc",     "mark"};

// One node, and what came of it.
struct Turn {
  std::string node;
  Child look, move;
  bool took_back = false;
  std::string take_back_error;
};

template <typename List>
bool Has(const List& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// `arguments` without options that have a value: as two words, or as one ("--port=7", "-ojson").
Arguments Without(const Arguments& arguments, const Arguments& options) {
  Arguments kept;
  for (size_t i = 0; i < arguments.size(); ++i) {
    bool is_one = false;
    for (const std::string& option : options) {
      const bool is_long = absl::StartsWith(option, "--");
      is_one = is_one || absl::StartsWith(arguments[i], is_long ? option + "=" : option);
      if (arguments[i] != option) continue;
      is_one = true;
      ++i;  // its value
      break;
    }
    if (!is_one) kept.push_back(arguments[i]);
  }
  return kept;
}

// Works on all turns; each thread takes the next that is left.
template <typename Work>
void OnAll(std::vector<Turn>& turns, Work work) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min(turns.size(), kMostAtOnce); ++i) {
    threads.emplace_back([&] {
      for (size_t at; (at = next.fetch_add(1)) < turns.size();) work(turns[at]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Child RunOn(const Turn& turn, Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  arguments.insert(arguments.end(), {"--address", turn.node});
  return RunChild("/proc/self/exe", arguments);
}

Json Answer(const Child& child) {
  Json answer = Json::parse(child.out, nullptr, false);
  return answer.is_discarded() ? Json() : answer;
}

// One line; of a forecast its first refusal.
std::string ErrorOf(const Child& child) {
  if (child.exit_code == kExitOk) return {};
  const absl::string_view text = absl::StripAsciiWhitespace(child.err);
  if (!text.empty()) return std::string(text);
  const Json answer = Answer(child);
  if (answer.contains("refusals") && !answer["refusals"].empty()) {
    const Json& first = answer["refusals"][0];
    return absl::StrCat(first.value("message", ""), " (", first.value("reason", ""), ")");
  }
  return absl::StrCat("ended with ", child.exit_code);
}

// The processes that a transition has moved on a node, by their state now.
std::vector<std::string> Moved(const Child& child, bool paused) {
  std::vector<std::string> pids;
  const Json answer = Answer(child);
  if (!answer.contains("results")) return pids;
  for (const Json& result : answer["results"]) {
    const bool is_paused = result.value("state", "") == "paused";
    if (!result.value("already", true) && is_paused == paused) {
      pids.push_back(std::to_string(result.value("pid", 0)));
    }
  }
  return pids;
}

// The value that an option has in `arguments`; empty without it.
std::string ValueOf(const Arguments& arguments, const std::string& option) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == option && i + 1 < arguments.size()) return arguments[i + 1];
    if (absl::StartsWith(arguments[i], option + "=")) return arguments[i].substr(option.size() + 1);
  }
  return {};
}

// The way back for a node that is through: who left comes in again, who came in leaves. `epoch` is
// the caller's, so that one who has come after him is not undone.
void TakeBack(Turn& turn, const std::string& epoch) {
  const auto out = Moved(turn.move, true), in = Moved(turn.move, false);
  if (out.empty() && in.empty()) return;
  Arguments words;
  if (out.empty() || in.empty()) {
    words = {in.empty() ? "resume" : "pause"};
    for (const auto& pids : {out, in}) words.insert(words.end(), pids.begin(), pids.end());
  } else {
    words = {"handoff", "--out", absl::StrJoin(in, ","), "--in", absl::StrJoin(out, ",")};
  }
  if (!epoch.empty()) words.insert(words.end(), {"--epoch", epoch});
  const Child back = RunOn(turn, words, {});
  turn.took_back = back.exit_code == kExitOk;
  turn.take_back_error = ErrorOf(back);
}

Json ToJson(const Turn& turn, const Child& child) {
  Json json{{"node", turn.node}, {"exit_code", child.exit_code}};
  json["error"] = child.exit_code == kExitOk ? Json() : Json(ErrorOf(child));
  json["answer"] = Answer(child);
  json["taken_back"] = turn.took_back;
  json["take_back_error"] = turn.take_back_error.empty() ? Json() : Json(turn.take_back_error);
  return json;
}

int FirstBad(const std::vector<Turn>& turns, Child Turn::*run) {
  for (const Turn& turn : turns) {
    if ((turn.*run).exit_code != kExitOk) return (turn.*run).exit_code;
  }
  return kExitOk;
}

void PrintErrors(const Turn& turn, const Child& child, Terminal& terminal) {
  if (child.exit_code != kExitOk) terminal.err << turn.node << ": " << ErrorOf(child) << '\n';
  if (turn.took_back) terminal.err << turn.node << ": taken back\n";
  if (turn.take_back_error.empty()) return;
  terminal.err << turn.node << ": not taken back: " << turn.take_back_error << '\n';
}

// Every node's answer in its own words, or one document of all.
int Print(const std::vector<Turn>& turns, Child Turn::*run, const Context& context) {
  Terminal& terminal = context.terminal;
  Json nodes = Json::array();
  for (const Turn& turn : turns) {
    if (context.json()) {
      nodes.push_back(ToJson(turn, turn.*run));
      continue;
    }
    terminal.out << Paint(turn.node, Colour::kDim, terminal.colour) << '\n' << (turn.*run).out;
    terminal.out.flush();
    PrintErrors(turn, turn.*run, terminal);
  }
  if (context.json()) {
    terminal.out << Json{{"schema_version", kSchemaVersion}, {"nodes", nodes}}.dump(2) << '\n';
  }
  return FirstBad(turns, run);
}

// What has moved, in one table.
int PrintMoves(const std::vector<Turn>& turns, const Context& context) {
  if (context.json()) return Print(turns, &Turn::move, context);
  Terminal& terminal = context.terminal;
  Table table;
  table.AddColumn("NODE");
  table.AddColumn("PID", Table::Align::kRight);
  table.AddColumn("STATE");
  for (const char* name : {"HOST", "DISK", "RELEASED", "TIME"}) {
    table.AddColumn(name, Table::Align::kRight);
  }
  for (const Turn& turn : turns) {
    const Json answer = Answer(turn.move);
    if (!answer.contains("results")) continue;
    for (const Json& result : answer["results"]) {
      const bool already = result.value("already", false);
      table.AddRow({turn.node, std::to_string(result.value("pid", 0)),
                    absl::StrCat(result.value("state", ""), already ? " already" : ""),
                    FormatBytes(result.value("host_bytes", uint64_t(0))),
                    FormatBytes(result.value("disk_bytes", uint64_t(0))),
                    FormatBytes(result.value("released_bytes", uint64_t(0))),
                    FormatSeconds(result.value("total_seconds", 0.0))});
    }
  }
  if (!table.empty()) table.Print(terminal.out, terminal.out_columns, terminal.colour);
  terminal.out.flush();
  for (const Turn& turn : turns) PrintErrors(turn, turn.move, terminal);
  return FirstBad(turns, &Turn::move);
}

// Whether no node has a process that it is about.
bool AreEmpty(const std::vector<Turn>& turns, Child Turn::*run, const char* list) {
  return std::all_of(turns.begin(), turns.end(), [&](const Turn& turn) {
    const Json answer = Answer(turn.*run);
    return answer.contains(list) && answer[list].empty();
  });
}

int Move(const std::string& verb, Arguments arguments, std::vector<Turn>& turns,
         const Context& context) {
  arguments = Without(arguments, {"-o", "--output"});  // the answers are read here
  const bool may_be_empty = verb == "handoff" || Has(arguments, "--allow-empty");
  Arguments moves = {"-o", "json"};
  if (!may_be_empty) moves.push_back("--allow-empty");
  Arguments looks = moves;
  looks.push_back("--dry-run");
  // A resume that may wait for memory is not refused for want of it.
  if (!Has(arguments, "--wait")) {
    OnAll(turns, [&](Turn& turn) { turn.look = RunOn(turn, arguments, looks); });
    if (const int bad = FirstBad(turns, &Turn::look); bad != kExitOk) {
      context.terminal.err << "nothing has moved: not every node can\n";
      if (context.json()) return Print(turns, &Turn::look, context);
      for (const Turn& turn : turns) PrintErrors(turn, turn.look, context.terminal);
      return bad;
    }
    if (!may_be_empty && AreEmpty(turns, &Turn::look, "processes")) {
      return context.Fail(verb, absl::NotFoundError("no node has such a process"));
    }
  }
  OnAll(turns, [&](Turn& turn) { turn.move = RunOn(turn, arguments, moves); });
  if (verb != "resume" && FirstBad(turns, &Turn::move) != kExitOk) {
    OnAll(turns, [epoch = ValueOf(arguments, "--epoch")](Turn& turn) {
      if (turn.move.exit_code == kExitOk) TakeBack(turn, epoch);
    });
  }
  return PrintMoves(turns, context);
}

}  // namespace

int FanOut(const std::string& verb, std::vector<std::string> arguments, const Context& context) {
  const bool moves = Has(kMoving, verb);
  if (!moves && !Has(kOthers, verb)) {
    return context.Fail(verb, UsageError(absl::StrCat("`parkade ", verb,
                                                      "` is about one node: it takes no --nodes")));
  }
  const auto nodes = NodesOf(context.globals.nodes, context.globals.port);
  if (!nodes.ok()) return context.Fail(verb, nodes.status());
  arguments = Without(arguments, {"--nodes", "--port"});
  std::erase_if(arguments, [](const auto& word) {
    return word == "--watch" || absl::StartsWith(word, "--watch=");
  });
  if (context.globals.output == Output::kYaml) {
    arguments = Without(arguments, {"-o", "--output"});  // the answers are read here
    arguments.insert(arguments.end(), {"-o", "json"});
  }
  std::vector<Turn> turns;
  for (const std::string& node : *nodes) turns.push_back({node, {}, {}, false, {}});
  if (moves && !Has(arguments, "--dry-run")) return Move(verb, arguments, turns, context);
  OnAll(turns, [&](Turn& turn) { turn.move = RunOn(turn, arguments, {}); });
  return Print(turns, &Turn::move, context);
}

}  // namespace parkade::cli
