// Config: the daemon's settings, each from a flag, the environment, the TOML file or the default.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/log.h"
#include "daemon/group.h"

namespace parkade::daemon {

// A listener on the network, for callers with certificates. Only there when it is asked for.
struct TcpConfig {
  std::string listen;                // host:port
  std::string certificate;           // PEM files: the daemon's chain,
  std::string key;                   // its key, which nobody else may read,
  std::string client_ca;             // and whoever signs its callers' certificates
  std::vector<std::string> clients;  // names in certificates that may call: CN, DNS or URI
};

struct Config {
  std::string runtime_dir;  // sockets and lock
  std::string state_dir;    // what outlives the daemon
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  std::optional<Bytes> host_budget;  // empty: what the node and the process's cgroup have free
  // Base directories for backups that jobs may name, themselves or anything beneath them. The first
  // is used for those that name none. Empty: /scratch may be named, nothing is the default.
  std::vector<std::string> scratch_dirs;
  std::vector<std::string> allow_tmpfs;     // of them, those that may be tmpfs
  std::vector<std::string> scratch_stripe;  // of them, those that share the bytes of each backup
  std::optional<TcpConfig> tcp;             // empty: no listener on the network
  std::string metrics_listen;               // HOST:PORT; empty: no metrics
  std::string timeline_dir;                 // for recordings; empty: none
  Bytes timeline_limit = 1_GiB;             // of one recording
  std::vector<Group> groups;                // for everybody
  std::vector<std::string> described;       // "name=value (source)", one for each setting
};

// What the command line said; empty: nothing.
struct Flags {
  std::string config_file;
  std::string runtime_dir, state_dir, log_level, host_budget;
  std::vector<std::string> scratch_dirs, allow_tmpfs, scratch_stripe;
};

// Looks up an environment variable; nullptr when unset.
using Environment = const char* (*)(const char* name);

// INVALID_ARGUMENT (BAD_CONFIG) for an unreadable file, an unknown key, a value that cannot be, or
// settings that contradict each other; the message names setting and source.
absl::StatusOr<Config> LoadConfig(const Flags& flags, Environment environment);

}  // namespace parkade::daemon
