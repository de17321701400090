// The process around the command line: its streams, its terminal, its signals.
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "absl/status/status.h"
#include "cli/app.h"
#include "cli/error.h"
#include "cli/interrupt.h"

namespace {

// Columns of the terminal at `fd`; 0: it is none.
size_t ColumnsOf(int fd) {
  if (!isatty(fd)) return 0;
  winsize size{};
  constexpr size_t kOtherwise = 80;  // a terminal that does not say
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col != 0 ? size.ws_col : kOtherwise;
}

// https://no-color.org: any value but the empty one.
bool ColourIsRefused() {
  const char* value = getenv("NO_COLOR");
  return value != nullptr && value[0] != '\0';
}

}  // namespace

int main(int argc, char** argv) {
  using namespace parkade::cli;
  EndOnInterrupt();
  std::ios::sync_with_stdio(false);
  Terminal terminal{std::cout, std::cerr, ColumnsOf(STDOUT_FILENO), ColumnsOf(STDERR_FILENO)};
  terminal.colour = terminal.out_columns != 0 && !ColourIsRefused();
  const int code = RunCommandLine({argv + 1, argv + argc}, terminal);
  if (std::cout.flush()) return code;
  std::cerr << Sentence("", absl::DataLossError("the output could not be written")) << std::endl;
  return code == kExitOk ? kExitFailed : code;
}
