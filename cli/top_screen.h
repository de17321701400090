// The picture of `parkade top` as lines of text, whatever the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace parkade::cli {

// What the daemon said last.
struct TopView {
  v1::GetNodeResponse node;
  std::vector<v1::Process> processes;  // by pid
  std::vector<v1::Operation> running;  // operations under way
  std::string time;                    // of day
  size_t selected = 0;                 // index in processes
  std::string message;                 // of the last key, or why the daemon does not answer
};

// `height` lines at most, each `width` columns at most: GPUs with a bar of who holds what, the
// processes, what moves, and what the keys do. Where there is no room for all processes, those
// around the selected one are shown.
std::vector<std::string> TopScreen(const TopView& view, size_t width, size_t height, bool colour);

}  // namespace parkade::cli
