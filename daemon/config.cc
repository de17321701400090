// Merges the sources of settings and checks the result.
#include "daemon/config.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "daemon/config_groups.h"
#include "daemon/scratch_base.h"
#include "daemon/settings.h"
#include "daemon/status.h"
#include "daemon/toml.h"
#include "daemon/words.h"
#include "proto/wire.h"

namespace parkade::daemon {
namespace {

constexpr std::string_view kGroups = "groups";
constexpr uint64_t kMostQuantumSeconds = 86'400;
constexpr char kDefaultFile[] = "/etc/parkade/parkaded.toml";

absl::Status Bad(std::string_view what) {
  return Fail(absl::StatusCode::kInvalidArgument, "BAD_CONFIG", what);
}

std::vector<std::string> One(const std::string& flag) {
  return flag.empty() ? std::vector<std::string>{} : std::vector<std::string>{flag};
}

std::string DefaultStateDir(Environment environment) {
  if (geteuid() == 0) return "/var/lib/parkade";
  if (const char* state = environment("XDG_STATE_HOME")) return Cat(state, "/parkade");
  if (const char* home = environment("HOME")) return Cat(home, "/.local/state/parkade");
  return "/var/lib/parkade";
}

// A host and a port; which there are only the listener knows.
bool IsAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  return colon != 0 && colon != text.npos && ReadNumber<uint16_t>(text.substr(colon + 1));
}

// The settings of the listener on the network, in the file alone: it is opened by whoever may write
// that, not by an environment that drifts in.
struct TcpSettings {
  Setting listen{"tcp.listen", nullptr, {}};
  Setting certificate{"tcp.certificate", nullptr, {}};
  Setting key{"tcp.key", nullptr, {}};
  Setting client_ca{"tcp.client_ca", nullptr, {}};
  Setting clients{"tcp.clients", nullptr, {}, true};

  std::array<Setting*, 5> all() { return {&listen, &certificate, &key, &client_ca, &clients}; }
};

// Empty: none of them is given.
std::optional<TcpConfig> ReadTcp(TcpSettings& tcp, std::string_view file_name, Mistakes& mistakes) {
  const auto all = tcp.all();
  const auto given =
      std::find_if(all.begin(), all.end(), [](const Setting* s) { return !s->value.empty(); });
  if (given == all.end()) return std::nullopt;
  for (const Setting* s : all) {
    if (!s->value.empty() || s->place != "default") continue;
    mistakes.Add(file_name, Cat(s->name, " is missing"),
                 "a listener on the network needs all of [tcp]");
  }
  const std::string listen = tcp.listen.text();
  if (!listen.empty() && !IsAddress(listen)) {
    mistakes.Add(tcp.listen.place, "tcp.listen",
                 Cat("\"", listen, "\" is not a host and a port such as host:7463"));
  }
  return TcpConfig{listen, tcp.certificate.text(), tcp.key.text(), tcp.client_ca.text(),
                   tcp.clients.value};
}

void CheckScratch(const Setting& dirs, const Setting& tmpfs, const Setting& stripe,
                  Mistakes& mistakes) {
  for (const std::string& dir : dirs.value) {
    if (auto s = CheckBasePath(dir); !s.ok()) mistakes.Add(dirs.place, dirs.name, MessageOf(s));
  }
  for (const Setting* named : {&tmpfs, &stripe}) {
    for (const std::string& dir : named->value) {
      if (std::count(dirs.value.begin(), dirs.value.end(), dir) == 0) {
        mistakes.Add(named->place, named->name,
                     Cat(dir, " is not in scratch.dirs: add it there too"));
      }
    }
  }
  const size_t named = stripe.value.size();
  const std::set<std::string> different(stripe.value.begin(), stripe.value.end());
  if (different.size() != named || named == 1 || named > wire::kMaxFiles) {
    mistakes.Add(stripe.place, stripe.name,
                 Cat("must name from 2 to ", wire::kMaxFiles, " different directories"));
  }
}

std::string FileName(const Flags& flags, Environment environment) {
  if (!flags.config_file.empty()) return flags.config_file;
  if (const char* named = environment("PARKADED_CONFIG")) return named;
  return access(kDefaultFile, F_OK) == 0 ? kDefaultFile : "";
}

absl::StatusOr<toml::table> ReadFile(const std::string& name) {
  if (name.empty()) return toml::table();
  // The parser would take a directory for an empty file.
  if (std::error_code error; std::filesystem::is_directory(name, error)) {
    return Bad(Cat(name, " is a directory, not a configuration file"));
  }
  toml::parse_result parsed = toml::parse_file(name);
  if (parsed) return std::move(parsed).table();
  const auto line = parsed.error().source().begin.line;
  return Bad(
      Cat(name, line > 0 ? Cat(":", line) : "", ": ", std::string(parsed.error().description())));
}

std::string DirectoryOf(const Setting& setting, const std::string& otherwise, Mistakes& mistakes) {
  if (setting.value.empty()) return otherwise;
  if (setting.text()[0] != '/') {
    mistakes.Add(setting.place, setting.name, Cat(setting.text(), " is not an absolute path"));
  }
  return setting.text();
}

}  // namespace

absl::StatusOr<Config> LoadConfig(const Flags& flags, Environment environment) {
  const std::string file_name = FileName(flags, environment);
  const auto file = ReadFile(file_name);
  if (!file.ok()) return file.status();

  Setting runtime{"daemon.runtime_dir", "PARKADE_RUNTIME_DIR", One(flags.runtime_dir)};
  Setting state{"daemon.state_dir", "PARKADED_STATE_DIR", One(flags.state_dir)};
  Setting log{"daemon.log_level", "PARKADED_LOG_LEVEL", One(flags.log_level)};
  Setting budget{"host.budget", "PARKADED_HOST_BUDGET", One(flags.host_budget)};
  Setting dirs{"scratch.dirs", "PARKADED_SCRATCH_DIRS", flags.scratch_dirs, true};
  Setting tmpfs{"scratch.allow_tmpfs", "PARKADED_ALLOW_TMPFS", flags.allow_tmpfs, true};
  Setting stripe{"scratch.stripe", "PARKADED_SCRATCH_STRIPE", flags.scratch_stripe, true};
  TcpSettings tcp;

  Setting quantum{"turns.quantum", "PARKADED_TURN_QUANTUM", {}};
  Setting format{"daemon.log_format", "PARKADED_LOG_FORMAT", {}};
  Setting recording{"timeline.dir", "PARKADED_TIMELINE_DIR", {}};
  Setting limit{"timeline.limit", "PARKADED_TIMELINE_LIMIT", {}};
  Setting metrics{"metrics.listen", nullptr, {}};  // as tcp
  Mistakes mistakes;
  SettingSources sources(*file, file_name, environment, mistakes);
  for (Setting* s : {&runtime, &state, &log, &format, &budget, &dirs, &tmpfs, &stripe, &quantum,
                     &metrics, &recording, &limit}) {
    sources.Fill(*s);
  }
  for (Setting* s : tcp.all()) sources.Fill(*s);
  sources.RefuseUnknown(kGroups);

  Config config;
  config.runtime_dir = DirectoryOf(runtime, "/run/parkade", mistakes);
  config.state_dir = DirectoryOf(state, DefaultStateDir(environment), mistakes);
  if (config.state_dir[0] != '/') {
    mistakes.Add("", state.name, Cat(config.state_dir, " is not an absolute path"));
  }
  if (!log.value.empty() && !ParseLogLevel(log.text().c_str(), &config.log_level)) {
    mistakes.Add(log.place, log.name,
                 Cat("\"", log.text(), "\" is none of debug, info, warning, error, off"));
  }
  if (!budget.value.empty()) {
    const auto bytes = ParseBytes(budget.text());
    if (bytes.ok()) {
      config.host_budget = *bytes;
    } else {
      mistakes.Add(budget.place, budget.name, bytes.error().what);
    }
  }
  if (!quantum.value.empty()) {
    const auto seconds = ReadNumber<uint64_t>(quantum.text());
    if (!seconds || *seconds == 0 || *seconds > kMostQuantumSeconds) {
      mistakes.Add(quantum.place, quantum.name,
                   Cat("\"", quantum.text(), "\" is no number of whole seconds from 1 to ",
                       kMostQuantumSeconds));
    } else {
      config.turn_quantum_ns = *seconds * 1'000'000'000;
    }
  }
  if (!format.value.empty() && !ParseLogFormat(format.text().c_str(), &config.log_format)) {
    mistakes.Add(format.place, format.name,
                 Cat("\"", format.text(), "\" is neither text nor json"));
  }
  config.metrics_listen = metrics.text();
  if (!metrics.value.empty() && !IsAddress(config.metrics_listen)) {
    mistakes.Add(
        metrics.place, metrics.name,
        Cat("\"", config.metrics_listen, "\" is not a host and a port such as 127.0.0.1:9464"));
  }
  config.timeline_dir = DirectoryOf(recording, "", mistakes);
  if (!limit.value.empty()) {
    const auto bytes = ParseBytes(limit.text());
    if (bytes.ok()) {
      config.timeline_limit = *bytes;
    } else {
      mistakes.Add(limit.place, limit.name, bytes.error().what);
    }
  }
  config.scratch_dirs = dirs.value;
  config.allow_tmpfs = tmpfs.value;
  config.scratch_stripe = stripe.value;
  CheckScratch(dirs, tmpfs, stripe, mistakes);
  config.tcp = ReadTcp(tcp, file_name, mistakes);
  if (const toml::table* groups = (*file)[kGroups].as_table()) {
    config.groups = ReadGroups(*groups, file_name, mistakes);
  }
  if (!mistakes.empty()) return mistakes.ToStatus();

  const auto describe = [&](const Setting& s, const std::string& value) {
    config.values[s.name] = value;
    config.described.push_back(Cat(s.name, "=", value, " (", s.place, ")"));
  };
  describe(runtime, config.runtime_dir);
  describe(state, config.state_dir);
  describe(log, log.value.empty() ? "info" : log.text());
  describe(format, format.value.empty() ? "text" : format.text());
  describe(budget, budget.value.empty() ? "what is free" : budget.text());
  describe(dirs, dirs.text());
  describe(tmpfs, tmpfs.text());
  describe(stripe, stripe.text());
  describe(quantum, std::to_string(config.turn_quantum_ns / 1'000'000'000));
  describe(metrics, metrics.value.empty() ? "no metrics" : metrics.text());
  describe(recording, recording.value.empty() ? "no recording" : recording.text());
  describe(limit, limit.value.empty() ? "1GiB" : limit.text());
  for (const Group& group : config.groups) {
    config.described.push_back(Cat("groups.", group.name, " (", file_name, ")"));
  }
  if (!config.tcp) describe(tcp.listen, "no listener on the network");
  if (config.tcp) {
    for (const Setting* s : tcp.all()) describe(*s, Join(s->value, ", "));
  }
  return config;
}

}  // namespace parkade::daemon
