// Progress: the line on a terminal that says how far a pause or resume is, fed by Watch.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>

#include "cli/client.h"
#include "cli/context.h"

namespace parkade::cli {

class Progress {
 public:
  // Draws on stderr until it is destroyed, which clears the line; does nothing where stderr is no
  // terminal. `doing` is "pausing" or "resuming". Nothing else may write to stderr meanwhile. A
  // watch that fails only means that there is no line.
  Progress(Client& client, const v1::Selector& selector, std::string doing, Terminal& terminal);
  ~Progress();

 private:
  void Draw();

  const std::string doing_;
  Terminal& terminal_;
  std::unique_ptr<EventStream> events_;
  std::map<int32_t, v1::Process> processes_;  // thread_'s own
  std::thread thread_;
};

// The line's text for processes as they are now: "pausing 2 processes: 3.10 GiB of 8.00 GiB, ...".
std::string ProgressLine(const std::string& doing, const std::map<int32_t, v1::Process>& processes);

}  // namespace parkade::cli
