// The command line of stepper.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/apps/stepper/driver.h"

struct Options {
  Door door = Door::kLinked;
  int device = 0;
  size_t buffers = 12;
  std::vector<uint64_t> sizes = {1, 4096, 3 << 20, (40 << 20) + 3};  // taken in turn
  uint64_t seed = 1;
  uint64_t steps = 0;     // 0: until SIGTERM
  unsigned step_ms = 0;   // pause before each step
  bool on_input = false;  // one step for each line of standard input, until its end
};

// Reads the command line. On an error says on stderr what is wrong and returns false.
bool ReadOptions(int argc, char** argv, Options* options);
