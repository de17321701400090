// Merges the sources of settings and checks the result.
#include "daemon/config.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "daemon/config_groups.h"
#include "daemon/scratch_base.h"
#include "daemon/status.h"
#include "daemon/toml.h"
#include "daemon/words.h"
#include "proto/wire.h"

namespace parkade::daemon {
namespace {

constexpr std::string_view kGroups = "groups";
constexpr char kDefaultFile[] = "/etc/parkade/parkaded.toml";

absl::Status Bad(std::string_view what) {
  return Fail(absl::StatusCode::kInvalidArgument, "BAD_CONFIG", what);
}

// One setting: where it may come from, and where it did.
struct Setting {
  const char* name;      // in the file, with its table
  const char* variable;  // nullptr: none
  std::vector<std::string> flag;
  bool is_list;
  std::vector<std::string> value;
  std::string source;

  std::string text() const { return Join(value, ":"); }
};

class Sources {
 public:
  Sources(const toml::table& file, std::string file_name, Environment environment)
      : file_(file), file_name_(std::move(file_name)), environment_(environment) {}

  absl::Status Fill(Setting& s) {
    known_.insert(s.name);
    if (!s.flag.empty()) {
      s.value = s.flag;
      s.source = "flag";
    } else if (const char* text = Variable(s); text != nullptr) {
      if (s.is_list) {
        for (std::string_view part : Split(text, ":")) s.value.emplace_back(part);
      } else {
        s.value = {text};
      }
      s.source = s.variable;
    } else if (const auto node = file_.at_path(s.name)) {
      s.source = file_name_;
      if (s.is_list && node.is_array()) {
        for (const auto& item : *node.as_array()) {
          if (!item.is_string()) return Bad(Cat(s.name, ": a list of texts is expected"));
          s.value.push_back(std::string(item.as_string()->get()));
        }
      } else if (!s.is_list && node.is_string()) {
        s.value = {std::string(node.as_string()->get())};
      } else {
        return Bad(Cat(s.name, " (", s.source, "): a ", s.is_list ? "list of texts" : "text",
                       " is expected"));
      }
    } else {
      s.source = "default";
      return absl::OkStatus();
    }
    if (s.value.empty() || std::count(s.value.begin(), s.value.end(), "") != 0) {
      return Bad(Cat(s.name, " (", s.source, ") is empty"));
    }
    return absl::OkStatus();
  }

  const char* Variable(const Setting& s) const {
    return s.variable == nullptr ? nullptr : environment_(s.variable);
  }

  // A setting that nobody reads would be one without effect.
  absl::Status CheckKeys() const {
    for (const auto& [table, node] : file_) {
      if (!node.is_table()) {
        return Bad(Cat(file_name_, ": unknown setting ", table.str()));
      }
      if (table.str() == kGroups) continue;  // has names of its own
      for (const auto& [key, value] : *node.as_table()) {
        const std::string name = Cat(table.str(), ".", key.str());
        if (!known_.contains(name)) {
          return Bad(Cat(file_name_, ": unknown setting ", name));
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  const toml::table& file_;
  std::string file_name_;
  Environment environment_;
  std::set<std::string> known_;
};

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

absl::Status CheckTcp(const TcpConfig& tcp) {
  const std::pair<std::string_view, bool> needed[] = {{"listen", tcp.listen.empty()},
                                                      {"certificate", tcp.certificate.empty()},
                                                      {"key", tcp.key.empty()},
                                                      {"client_ca", tcp.client_ca.empty()},
                                                      {"clients", tcp.clients.empty()}};
  for (const auto& [name, missing] : needed) {
    if (missing) {
      return Bad(Cat("tcp.", name, " is missing: a listener on the network needs all of [tcp]"));
    }
  }
  if (!IsAddress(tcp.listen)) {
    return Bad(Cat("tcp.listen is \"", tcp.listen, "\", not a host and a port such as host:7463"));
  }
  return absl::OkStatus();
}

absl::Status CheckScratch(const Config& config) {
  for (const std::string& dir : config.scratch_dirs) {
    if (auto s = CheckBasePath(dir); !s.ok()) return Bad(MessageOf(s));
  }
  const auto& dirs = config.scratch_dirs;
  for (const auto& [name, named] : {std::pair{"scratch.allow_tmpfs", &config.allow_tmpfs},
                                    std::pair{"scratch.stripe", &config.scratch_stripe}}) {
    for (const std::string& dir : *named) {
      if (std::find(dirs.begin(), dirs.end(), dir) == dirs.end()) {
        return Bad(Cat(name, " names ", dir, ", which is not in scratch.dirs: add it there too"));
      }
    }
  }
  const auto& stripe = config.scratch_stripe;
  const std::set<std::string> different(stripe.begin(), stripe.end());
  if (different.size() != stripe.size() || stripe.size() == 1 || stripe.size() > wire::kMaxFiles) {
    return Bad(
        Cat("scratch.stripe must name from 2 to ", wire::kMaxFiles, " different directories"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Config> LoadConfig(const Flags& flags, Environment environment) {
  std::string file_name = flags.config_file;
  if (file_name.empty()) {
    if (const char* named = environment("PARKADED_CONFIG")) file_name = named;
  }
  if (file_name.empty() && access(kDefaultFile, F_OK) == 0) file_name = kDefaultFile;
  toml::table file;
  if (!file_name.empty()) {
    // The parser would take a directory for an empty file.
    if (std::error_code error; std::filesystem::is_directory(file_name, error)) {
      return Bad(Cat(file_name, " is a directory, not a configuration file"));
    }
    toml::parse_result parsed = toml::parse_file(file_name);
    if (!parsed) {
      return Bad(Cat(file_name, ":", parsed.error().source().begin.line, ": ",
                     std::string(parsed.error().description())));
    }
    file = std::move(parsed).table();
  }

  Setting runtime{
      "daemon.runtime_dir", "PARKADE_RUNTIME_DIR", One(flags.runtime_dir), false, {}, {}};
  Setting state{"daemon.state_dir", "PARKADED_STATE_DIR", One(flags.state_dir), false, {}, {}};
  Setting log{"daemon.log_level", "PARKADED_LOG_LEVEL", One(flags.log_level), false, {}, {}};
  Setting budget{"host.budget", "PARKADED_HOST_BUDGET", One(flags.host_budget), false, {}, {}};
  Setting dirs{"scratch.dirs", "PARKADED_SCRATCH_DIRS", flags.scratch_dirs, true, {}, {}};
  Setting tmpfs{"scratch.allow_tmpfs", "PARKADED_ALLOW_TMPFS", flags.allow_tmpfs, true, {}, {}};
  Setting stripe{"scratch.stripe", "PARKADED_SCRATCH_STRIPE", flags.scratch_stripe, true, {}, {}};

  Setting format{"daemon.log_format", "PARKADED_LOG_FORMAT", {}, false, {}, {}};
  Setting recording{"timeline.dir", "PARKADED_TIMELINE_DIR", {}, false, {}, {}};
  Setting limit{"timeline.limit", "PARKADED_TIMELINE_LIMIT", {}, false, {}, {}};

  // The network is opened by whoever may write the file, not by an environment that drifts in.
  Setting metrics{"metrics.listen", nullptr, {}, false, {}, {}};
  Setting listen{"tcp.listen", nullptr, {}, false, {}, {}};
  Setting certificate{"tcp.certificate", nullptr, {}, false, {}, {}};
  Setting key{"tcp.key", nullptr, {}, false, {}, {}};
  Setting client_ca{"tcp.client_ca", nullptr, {}, false, {}, {}};
  Setting clients{"tcp.clients", nullptr, {}, true, {}, {}};
  Setting* const tcp[] = {&listen, &certificate, &key, &client_ca, &clients};

  Sources sources(file, file_name, environment);
  std::vector<Setting*> all{&runtime, &state,  &log,     &format,    &budget, &dirs,
                            &tmpfs,   &stripe, &metrics, &recording, &limit};
  all.insert(all.end(), std::begin(tcp), std::end(tcp));
  for (Setting* s : all) {
    if (auto r = sources.Fill(*s); !r.ok()) return r;
  }
  if (auto r = sources.CheckKeys(); !r.ok()) return r;

  Config config;
  config.runtime_dir = runtime.value.empty() ? "/run/parkade" : runtime.text();
  config.state_dir = state.value.empty() ? DefaultStateDir(environment) : state.text();
  for (const std::string* dir : {&config.runtime_dir, &config.state_dir}) {
    if ((*dir)[0] != '/') return Bad(Cat(*dir, " is not an absolute path"));
  }
  if (!log.value.empty() && !ParseLogLevel(log.text().c_str(), &config.log_level)) {
    return Bad(Cat("daemon.log_level (", log.source, "): \"", log.text(),
                   "\" is none of debug, info, warning, error, off"));
  }
  if (!budget.value.empty()) {
    const auto bytes = ParseBytes(budget.text());
    if (!bytes.ok()) {
      return Bad(Cat("host.budget (", budget.source, "): ", bytes.error().what));
    }
    config.host_budget = *bytes;
  }
  if (!format.value.empty() && !ParseLogFormat(format.text().c_str(), &config.log_format)) {
    return Bad(Cat("daemon.log_format (", format.source, "): \"", format.text(),
                   "\" is neither text nor json"));
  }
  config.metrics_listen = metrics.text();
  if (!metrics.value.empty() && !IsAddress(config.metrics_listen)) {
    return Bad(Cat("metrics.listen (", metrics.source, ") is \"", config.metrics_listen,
                   "\", not a host and a port such as 127.0.0.1:9464"));
  }
  config.timeline_dir = recording.text();
  if (!recording.value.empty() && config.timeline_dir[0] != '/') {
    return Bad(Cat("timeline.dir: ", config.timeline_dir, " is not an absolute path"));
  }
  if (!limit.value.empty()) {
    const auto bytes = ParseBytes(limit.text());
    if (!bytes.ok()) return Bad(Cat("timeline.limit (", limit.source, "): ", bytes.error().what));
    config.timeline_limit = *bytes;
  }
  config.scratch_dirs = dirs.value;
  config.allow_tmpfs = tmpfs.value;
  config.scratch_stripe = stripe.value;
  if (auto r = CheckScratch(config); !r.ok()) return r;
  if (std::any_of(std::begin(tcp), std::end(tcp),
                  [](const Setting* s) { return !s->value.empty(); })) {
    config.tcp =
        TcpConfig{listen.text(), certificate.text(), key.text(), client_ca.text(), clients.value};
    if (auto r = CheckTcp(*config.tcp); !r.ok()) return r;
  }

  if (const toml::table* groups = file[kGroups].as_table()) {
    auto read = ReadGroups(*groups, file_name);
    if (!read.ok()) return read.status();
    config.groups = std::move(*read);
  }

  const auto describe = [&](const Setting& s, std::string_view value) {
    config.described.push_back(Cat(s.name, "=", value, " (", s.source, ")"));
  };
  describe(runtime, config.runtime_dir);
  describe(state, config.state_dir);
  describe(log, log.value.empty() ? "info" : log.text());
  describe(format, format.value.empty() ? "text" : format.text());
  describe(budget, budget.value.empty() ? "what is free" : budget.text());
  describe(dirs, dirs.text());
  describe(tmpfs, tmpfs.text());
  describe(stripe, stripe.text());
  describe(metrics, metrics.value.empty() ? "no metrics" : metrics.text());
  describe(recording, recording.value.empty() ? "no recording" : recording.text());
  describe(limit, limit.value.empty() ? "1GiB" : limit.text());
  for (const Group& group : config.groups) {
    config.described.push_back(Cat("groups.", group.name, " (", file_name, ")"));
  }
  if (!config.tcp) describe(listen, "no listener on the network");
  if (config.tcp) {
    for (const Setting* s : tcp) describe(*s, Join(s->value, ", "));
  }
  return config;
}

}  // namespace parkade::daemon
