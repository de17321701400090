// Surroundings: what this process runs on that decides what Parkade can do here, for `parkade
// show`. It looks and says; it changes nothing.
#pragma once

#include <string>

#include "shim/cuda/driver.h"

namespace parkade::shim {

struct Surroundings {
  std::string lines;     // "name=value (source)", one a line
  std::string warnings;  // a sentence a line, for what Parkade has not been tried on
};

// What is not the driver's to say.
struct Host {
  long page_bytes;
  bool wsl;  // the GPU is reached through Windows: there is a /dev/dxg
};
Host ReadHost();

// Asks every device of the driver. Any thread, after cuInit; needs no context.
Surroundings LookAround(const Driver& driver, const Host& host);

// CUDA_INJECTION64_PATH and the like, by which profilers and sanitizers enter a process. Empty:
// none. `get` as in ReadSettings.
std::string ReadTools(const char* (*get)(const char* name));

}  // namespace parkade::shim
