// Reads the settings of the simulated node.
#include "tests/sim/settings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace parkade::sim {
namespace {

[[noreturn]] void Refuse(const std::string& name, const std::string& value) {
  fprintf(stderr, "simulated GPU: cannot use %s=%s\n", name.c_str(), value.c_str());
  exit(2);
}

std::string DefaultDir() {
  if (const char* dir = getenv("XDG_RUNTIME_DIR"); dir != nullptr && access(dir, W_OK) == 0)
    return std::string(dir) + "/parkade-sim";
  return "/tmp/parkade-sim-" + std::to_string(getuid());
}

Bytes ReadBytes(const std::string& name, const std::string& value) {
  auto bytes = ParseBytes(value);
  if (!bytes.ok()) Refuse(name, value);
  return *bytes;
}

double ReadNumber(const std::string& name, const std::string& value) {
  char* end = nullptr;
  const double number = strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || number < 0) Refuse(name, value);
  return number;
}

void Set(Settings& settings, const std::string& name, const std::string& value) {
  if (name == "gpus") {
    settings.gpus = int(ReadNumber(name, value));
    if (settings.gpus > kMaxGpus) Refuse(name, value);
  } else if (name == "gpu_bytes") {
    settings.gpu_bytes = ReadBytes(name, value);
  } else if (name == "context_bytes") {
    settings.context_bytes = value == "0" ? 0 : ReadBytes(name, value);
  } else if (name == "link_gbps") {
    settings.link_bytes_per_s = uint64_t(ReadNumber(name, value) * 1e9);
  } else if (name == "mps") {
    settings.mps = ReadNumber(name, value) != 0;
  } else if (name == "mig") {
    settings.mig = ReadNumber(name, value) != 0;
  } else if (name == "cc") {
    settings.cc = ReadNumber(name, value) != 0;
  } else if (name == "checkpoint_breaks") {
    settings.checkpoint_breaks = ReadNumber(name, value) != 0;
  } else {
    Refuse(name, value);
  }
}

}  // namespace

Settings ReadSettings() {
  Settings settings;
  const char* dir = getenv("SIM_DIR");
  settings.dir = dir != nullptr && *dir != '\0' ? dir : DefaultDir();
  mkdir(settings.dir.c_str(), 0700);

  std::ifstream config(settings.dir + "/config");
  for (std::string name, value; config >> name >> value;) Set(settings, name, value);

  for (const char* name : {"gpus", "gpu_bytes", "context_bytes", "link_gbps", "mps", "mig", "cc",
                           "checkpoint_breaks"}) {
    std::string variable = std::string("SIM_") + name;
    std::transform(variable.begin(), variable.end(), variable.begin(), ::toupper);
    if (const char* value = getenv(variable.c_str())) Set(settings, name, value);
  }
  return settings;
}

}  // namespace parkade::sim
