// Reads the environment, says where each value came from and what was wrong with those refused.
#include "shim/agent/settings.h"

#include <unistd.h>

#include <charconv>
#include <cstring>
#include <initializer_list>

#include "shim/heap/tag_name.h"

namespace parkade::shim {
namespace {

class Reader {
 public:
  Reader(const char* (*get)(const char*), Settings* settings) : get_(get), settings_(settings) {}

  // The first of `names` that is set and not empty; null if none. `*source` is its name.
  const char* First(std::initializer_list<const char*> names, const char** source) const {
    for (const char* name : names) {
      const char* value = get_(name);
      if (value == nullptr || *value == '\0') continue;
      *source = name;
      return value;
    }
    return nullptr;
  }

  void Say(const char* setting, const std::string& value, const char* source) {
    settings_->lines += std::string(setting) + "=" + value + " (" + source + ")\n";
  }

  void Refuse(const char* source, const char* value, const char* why) {
    settings_->warnings += std::string(source) + "=" + value + " is ignored: " + why + "\n";
  }

  // A label: any text that fits `room` bytes.
  std::string Label(const char* setting, std::initializer_list<const char*> names, size_t room) {
    const char* source = nullptr;
    const char* value = First(names, &source);
    if (value == nullptr) return {};
    if (strlen(value) >= room) {
      Refuse(source, value, "too long");
      return {};
    }
    Say(setting, value, source);
    return value;
  }

 private:
  const char* (*get_)(const char*);
  Settings* settings_;
};

int ReadRank(Reader& reader) {
  const char* source = nullptr;
  const char* value = reader.First(
      {"PARKADE_RANK", "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"}, &source);
  if (value == nullptr) return -1;
  int rank = -1;
  const char* end = value + strlen(value);
  const auto read = std::from_chars(value, end, rank);
  if (read.ec != std::errc() || read.ptr != end || rank < 0) {
    reader.Refuse(source, value, "a rank is a whole number from 0");
    return -1;
  }
  reader.Say("rank", value, source);
  return rank;
}

struct Named {
  const char* name;
  uint32_t value;
};

// A setting with a few known values, the first of which is the default.
uint32_t ReadNamed(Reader& reader, const char* setting, const char* variable,
                   std::initializer_list<Named> known, const char* why) {
  const char* source = nullptr;
  const char* value = reader.First({variable}, &source);
  for (const Named& named : known) {
    if (value == nullptr || strcmp(named.name, value) != 0) continue;
    reader.Say(setting, value, source);
    return named.value;
  }
  if (value != nullptr) reader.Refuse(source, value, why);
  reader.Say(setting, known.begin()->name, "default");
  return known.begin()->value;
}

wire::Policy ReadPolicy(Reader& reader) {
  using wire::Policy;
  return Policy(ReadNamed(reader, "policy", "PARKADE_POLICY",
                          {{"host", uint32_t(Policy::kHost)},
                           {"disk", uint32_t(Policy::kDisk)},
                           {"auto", uint32_t(Policy::kAuto)}},
                          "host, disk and auto are known; discard only by tag in a request"));
}

wire::Elision ReadElision(Reader& reader) {
  using wire::Elision;
  return Elision(ReadNamed(reader, "elision", "PARKADE_ELISION",
                           {{"hash", uint32_t(Elision::kHash)},
                            {"bytes", uint32_t(Elision::kBytes)},
                            {"off", uint32_t(Elision::kOff)}},
                           "hash, bytes and off are known"));
}

std::string ReadTag(Reader& reader) {
  const char* source = nullptr;
  const char* value = reader.First({"PARKADE_TAG"}, &source);
  if (value == nullptr) return "default";
  if (!IsTagName(value)) {
    reader.Refuse(source, value, "a tag is 1 to 31 letters, digits and _ - . : /");
    return "default";
  }
  reader.Say("tag", value, source);
  return value;
}

// PARKADE_ALLOC_WAIT=SECONDS, a day at most.
uint64_t ReadAllocWait(Reader& reader) {
  constexpr uint64_t kMostSeconds = 86'400;
  const char* source = nullptr;
  const char* value = reader.First({"PARKADE_ALLOC_WAIT"}, &source);
  if (value == nullptr) return 0;
  uint64_t seconds = 0;
  const char* end = value + strlen(value);
  const auto read = std::from_chars(value, end, seconds);
  if (read.ec != std::errc() || read.ptr != end || seconds > kMostSeconds) {
    reader.Refuse(source, value, "whole seconds are expected, 86400 at most");
    return 0;
  }
  reader.Say("alloc_wait", value, source);
  return seconds * 1000;
}

// PARKADE_PREWARM=SIZE or auto.
Bytes ReadPrewarm(Reader& reader) {
  const char* source = nullptr;
  const char* value = reader.First({"PARKADE_PREWARM"}, &source);
  if (value == nullptr) return 0;
  const bool automatic = strcmp(value, "auto") == 0;
  const auto bytes = automatic ? Result<Bytes>(Prewarm::kAuto) : ParseBytes(value);
  if (!bytes.ok()) {
    reader.Refuse(source, value, "a size such as 64G or auto is expected");
    return 0;
  }
  reader.Say("prewarm", value, source);
  return *bytes;
}

// PARKADE_POISON=on.
bool ReadPoison(Reader& reader) {
  const char* source = nullptr;
  const char* value = reader.First({"PARKADE_POISON"}, &source);
  if (value == nullptr || strcmp(value, "off") == 0) return false;
  if (strcmp(value, "on") != 0) {
    reader.Refuse(source, value, "on and off are known");
    return false;
  }
  reader.Say("poison", value, source);
  return true;
}

LogLevel ReadLogLevel(Reader& reader) {
  LogLevel level = LogLevel::kWarning;
  const char* source = nullptr;
  const char* value = reader.First({"PARKADE_LOG"}, &source);
  if (value == nullptr) return level;
  if (ParseLogLevel(value, &level)) {
    reader.Say("log", value, source);
  } else {
    reader.Refuse(source, value, "debug, info, warning, error and off are known");
  }
  return level;
}

std::string ReadScratchBase(Reader& reader, bool* yields) {
  const char* source = nullptr;
  const char* value = reader.First({"PARKADE_SCRATCH_DIR"}, &source);
  std::string base;
  if (value != nullptr) {
    base = value;
  } else if ((value = reader.First({"SCRATCH"}, &source)) != nullptr) {
    base = std::string(value) + "/parkade_" + std::to_string(getuid());
    *yields = true;
  } else {
    return {};
  }
  if (base[0] != '/' || base.size() >= sizeof(wire::Hello::wanted_scratch_base)) {
    reader.Refuse(source, value, "an absolute path of at most 255 bytes is expected");
    return {};
  }
  reader.Say("scratch_base", base, source);
  return base;
}

}  // namespace

Settings ReadSettings(const char* (*get)(const char*)) {
  Settings s;
  Reader reader(get, &s);
  const char* source = "default";
  const char* runtime = reader.First({"PARKADE_RUNTIME_DIR"}, &source);
  s.socket_path = std::string(runtime != nullptr ? runtime : "/run/parkade") + "/shim.sock";
  reader.Say("socket", s.socket_path, source);
  s.job = reader.Label("job", {"PARKADE_JOB", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "RAY_JOB_ID"},
                       sizeof(wire::Hello::job));
  s.role = reader.Label("role", {"PARKADE_ROLE", "ROLE_NAME"}, sizeof(wire::Hello::role));
  s.cell = reader.Label("cell", {"PARKADE_CELL"}, sizeof(wire::Hello::cell));
  s.rank = ReadRank(reader);
  s.policy = ReadPolicy(reader);
  s.tag = ReadTag(reader);
  s.elision = ReadElision(reader);
  s.alloc_wait_ms = ReadAllocWait(reader);
  s.takes_turns =
      ReadNamed(reader, "wake", "PARKADE_WAKE", {{"0", 0}, {"1", 1}}, "0 and 1 are known") != 0;
  s.prewarm = ReadPrewarm(reader);
  s.poisons = ReadPoison(reader);
  s.log_level = ReadLogLevel(reader);
  s.scratch_base = ReadScratchBase(reader, &s.scratch_base_yields);
  return s;
}

bool IsOff(const char* (*get)(const char*)) {
  const char* value = get("PARKADE");
  return value != nullptr && strcmp(value, "off") == 0;
}

}  // namespace parkade::shim
