// Finds host twins and runs them.
#include "tests/sim/module.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "tests/sim/builtin_kernels.h"

namespace parkade::sim {
namespace {

// The libraries of SIM_KERNELS, in its order.
std::vector<void*> OpenKernelLibraries() {
  std::vector<void*> libraries;
  const char* paths = getenv("SIM_KERNELS");
  std::istringstream list(paths == nullptr ? "" : paths);
  for (std::string path; std::getline(list, path, ':');) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) fprintf(stderr, "simulated GPU: SIM_KERNELS: %s\n", dlerror());
    if (library != nullptr) libraries.push_back(library);
  }
  return libraries;
}

const SimKernel* FindTwin(const std::string& name) {
  static const auto* const libraries = new std::vector<void*>(OpenKernelLibraries());
  const std::string symbol = "sim_kernel_" + name;
  const void* found = dlsym(RTLD_DEFAULT, symbol.c_str());
  for (size_t i = 0; found == nullptr && i < libraries->size(); ++i)
    found = dlsym((*libraries)[i], symbol.c_str());
  if (found == nullptr) return BuiltinKernel(name);
  const auto* twin = static_cast<const SimKernel*>(found);
  return twin->size == sizeof(SimKernel) ? twin : nullptr;
}

// What a running kernel needs of the driver: where to say that it touched what it may not.
int Touch(const SimLaunch* launch, const void* address, size_t bytes, int write) {
  if (bytes == 0) return 1;
  const auto at = reinterpret_cast<Address>(address);
  if (Sim().addresses.Check(at, bytes, write != 0) == AddressSpace::Touch::kFine) return 1;
  *static_cast<bool*>(launch->driver) = true;
  return 0;
}

CUresult Run(const SimKernel& twin, const LaunchShape& shape,
             const std::vector<std::vector<char>>& values) {
  bool faulted = false;
  SimLaunch launch = {};
  memcpy(launch.grid, shape.grid, sizeof launch.grid);
  memcpy(launch.block, shape.block, sizeof launch.block);
  launch.shared_bytes = shape.shared_bytes;
  launch.touch = Touch;
  launch.driver = &faulted;
  std::vector<void*> parameters;
  for (const auto& value : values) parameters.push_back(const_cast<char*>(value.data()));
  twin.run(&launch, parameters.data());
  return faulted ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

// The packed buffer of CU_LAUNCH_PARAM_BUFFER_POINTER, or nullptr.
const char* ParameterBuffer(void** extra, size_t* bytes) {
  const char* buffer = nullptr;
  for (void** item = extra; item != nullptr && *item != CU_LAUNCH_PARAM_END; item += 2) {
    if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<const char*>(item[1]);
    if (*item == CU_LAUNCH_PARAM_BUFFER_SIZE) *bytes = *static_cast<const size_t*>(item[1]);
  }
  return buffer;
}

}  // namespace

Registry<Module, CUmodule>& AllModules() {
  static auto* const modules = new Registry<Module, CUmodule>;
  return *modules;
}

Registry<Function, CUfunction>& AllFunctions() {
  static auto* const functions = new Registry<Function, CUfunction>;
  return *functions;
}

CUresult LoadModule(const void* image, std::shared_ptr<Module>* module) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto fresh = std::make_shared<Module>();
  const char* text = static_cast<const char*>(image);
  if (strncmp(text, "SIMK", 4) == 0) {
    fresh->lists_names = true;
    std::istringstream names(text + 4);
    for (std::string name; names >> name;) fresh->names.insert(name);
  }
  *module = std::move(fresh);
  return CUDA_SUCCESS;
}

CUresult GetFunction(CUmodule handle, const char* name, CUfunction* out) {
  static Mutex mu;
  static auto* const known = new std::map<std::pair<CUmodule, std::string>, CUfunction>;
  const auto module = AllModules().Find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module->lists_names && module->names.count(name) == 0) return CUDA_ERROR_NOT_FOUND;
  MutexLock lock(mu);
  CUfunction& function = (*known)[{handle, name}];
  if (AllFunctions().Find(function) == nullptr) {
    const SimKernel* twin = FindTwin(name);
    if (twin == nullptr) return CUDA_ERROR_NOT_FOUND;
    function = AllFunctions().Add(std::make_shared<Function>(Function{name, twin, handle}));
  }
  *out = function;
  return CUDA_SUCCESS;
}

CUresult PrepareLaunch(CUfunction handle, const LaunchShape& shape, void** parameters, void** extra,
                       Task* task) {
  const auto function = AllFunctions().Find(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < 3; ++i)
    if (shape.grid[i] == 0 || shape.block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
  if (uint64_t(shape.block[0]) * shape.block[1] * shape.block[2] > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  const SimKernel& twin = *function->twin;
  std::vector<std::vector<char>> values;
  size_t buffer_bytes = 0, offset = 0;
  const char* buffer = ParameterBuffer(extra, &buffer_bytes);
  for (uint32_t i = 0; i < twin.parameter_count; ++i) {
    const size_t bytes = twin.parameter_bytes[i];
    const char* from = nullptr;
    if (parameters != nullptr) {
      from = static_cast<const char*>(parameters[i]);
    } else {
      offset = RoundUp(offset, bytes);  // scalars and pointers align to their size
      if (buffer == nullptr || offset + bytes > buffer_bytes) return CUDA_ERROR_INVALID_VALUE;
      from = buffer + offset;
      offset += bytes;
    }
    if (from == nullptr) return CUDA_ERROR_INVALID_VALUE;
    values.emplace_back(from, from + bytes);
  }
  *task = [function, shape, values] { return Run(*function->twin, shape, values); };
  return CUDA_SUCCESS;
}

}  // namespace parkade::sim
