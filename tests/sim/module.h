// Module and Function: kernels by name, each with its host twin.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/driver.h"
#include "tests/sim/host_kernel.h"

namespace parkade::sim {

struct Function {
  std::string name;
  const SimKernel* twin;
  CUmodule module;
};

// An image that begins with "SIMK" lists its kernels, a name a line; any other image (cubin, PTX,
// fatbin) has every kernel for which there is a twin.
struct Module {
  bool lists_names = false;
  std::set<std::string> names;
};

Registry<Module, CUmodule>& AllModules();
Registry<Function, CUfunction>& AllFunctions();

CUresult LoadModule(const void* image, std::shared_ptr<Module>* module);
// NOT_FOUND when the module has no such kernel or nobody has its twin. The same name gives the same
// function.
CUresult GetFunction(CUmodule module, const char* name, CUfunction* function);

// A launch with its parameters copied, ready to run any number of times.
struct LaunchShape {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
};
CUresult PrepareLaunch(CUfunction function, const LaunchShape& shape, void** parameters,
                       void** extra, Task* task);

}  // namespace parkade::sim
