// Context: what every verb is given, the global options and the terminal it writes to.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/exit_codes.h"

namespace parkade::cli {

// Where output goes and what it can show.
struct Terminal {
  std::ostream& out;
  std::ostream& err;
  size_t out_columns = 0;  // 0: not a terminal, lines are never cut
  size_t err_columns = 0;  // 0: not a terminal, no progress line
  bool colour = false;     // only ever true when `out` is a terminal
};

enum class Output { kTable, kWide, kJson, kYaml };

struct Globals {
  std::string runtime_dir = "/run/parkade";
  bool runtime_dir_given = false;
  // Of a daemon on another node; empty: the one of this node, by its socket.
  std::string address;                    // host:port
  std::string certificate, key, ca;       // PEM files
  std::string nodes;                      // where many of them are listed (cli/nodes.h)
  int port = 0;                           // of those that are listed without one
  std::optional<absl::Duration> timeout;  // of the call to the daemon
  std::optional<Output> output;
  absl::Duration again;  // the verb is run again after this, until it fails; zero: it is not
};

struct Context {
  Terminal& terminal;
  Globals globals;
  std::vector<std::string> command;  // what stood after "--"
  std::function<int()> verb;         // set by the verb that the parser picks; gives the exit code

  // A document for programs; app.cc turns it into YAML where that is asked for.
  bool json() const { return globals.output == Output::kJson || globals.output == Output::kYaml; }
  bool wide() const { return globals.output == Output::kWide; }

  // Prints the sentence for `status` to stderr and returns its exit code; see cli/error.h.
  int Fail(std::string_view what, const absl::Status& status) const;
};

}  // namespace parkade::cli
