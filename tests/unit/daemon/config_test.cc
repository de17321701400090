// Configuration: precedence, sources and refusals.
#include "daemon/config.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

#include "daemon/status.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

std::map<std::string, std::string> environment;

const char* Lookup(const char* name) {
  const auto at = environment.find(name);
  return at == environment.end() ? nullptr : at->second.c_str();
}

absl::StatusOr<Config> Load(Flags flags = {}, const std::string& toml = "") {
  const testing::TestDir dir;
  if (flags.config_file.empty()) {
    flags.config_file = dir / "parkaded.toml";
    std::ofstream(flags.config_file) << toml;
  }
  return LoadConfig(flags, Lookup);
}

bool Shows(const Config& config, const std::string& line) {
  const auto& all = config.described;
  return std::find(all.begin(), all.end(), line) != all.end();
}

std::string Refusal(const std::string& toml) {
  const auto config = Load({}, toml);
  return config.ok() ? "" : MessageOf(config.status());
}

}  // namespace

TEST_CASE("without any source the defaults hold and say so") {
  environment.clear();
  const auto config = Load();
  REQUIRE(config.ok());
  CHECK(config->runtime_dir == "/run/parkade");
  CHECK_FALSE(config->host_budget.has_value());
  CHECK(Shows(*config, "daemon.runtime_dir=/run/parkade (default)"));
  CHECK(Shows(*config, "daemon.log_level=info (default)"));
}

TEST_CASE("a flag comes before the environment, that before the file") {
  environment = {{"PARKADE_RUNTIME_DIR", "/env"}, {"PARKADED_HOST_BUDGET", "2G"}};
  Flags flags;
  flags.runtime_dir = "/flag";
  const auto config = Load(flags,
                           "[daemon]\nruntime_dir = '/file'\nlog_level = 'error'\n"
                           "[host]\nbudget = '1G'\n"
                           "[scratch]\ndirs = ['/a', '/b']\n");
  environment.clear();
  REQUIRE(config.ok());
  CHECK(config->runtime_dir == "/flag");
  CHECK(config->host_budget == 2_GiB);
  CHECK(config->log_level == LogLevel::kError);
  CHECK(config->scratch_dirs == std::vector<std::string>{"/a", "/b"});
  CHECK(Shows(*config, "daemon.runtime_dir=/flag (flag)"));
  CHECK(Shows(*config, "host.budget=2G (PARKADED_HOST_BUDGET)"));
}

TEST_CASE("values that cannot be are refused with their name") {
  environment.clear();
  for (const char* size : {"0", "-1", "1.5G", "lots", ""}) {
    INFO(size);
    const std::string text = Refusal(std::string("[host]\nbudget = '") + size + "'\n");
    CHECK(text.find("host.budget") != std::string::npos);
  }
  CHECK(Refusal("[daemon]\nlog_level = 'loud'\n").find("daemon.log_level") != std::string::npos);
  CHECK(Refusal("[daemon]\nruntime_dir = 'relative'\n").find("absolute") != std::string::npos);
  CHECK(Refusal("[daemon]\nruntime_dir = 5\n").find("daemon.runtime_dir") != std::string::npos);
  CHECK(Refusal("[scratch]\ndirs = [5]\n").find("scratch.dirs") != std::string::npos);
  CHECK(Refusal("[scratch]\ndirs = ['/tmp/x']\n").find("/tmp/x") != std::string::npos);
}

TEST_CASE("settings without effect and contradictions are refused") {
  environment.clear();
  CHECK(Refusal("[daemon]\nruntimedir = '/x'\n").find("daemon.runtimedir") != std::string::npos);
  CHECK(Refusal("budget = '1G'\n").find("budget") != std::string::npos);
  CHECK(Refusal("[scratch]\ndirs = ['/a']\nstripe = ['/a', '/b']\n").find("/b") !=
        std::string::npos);
  for (const char* few : {"['/a']", "['/a', '/a']"}) {
    CHECK(Refusal(std::string("[scratch]\ndirs = ['/a']\nstripe = ") + few).find("from 2 to") !=
          std::string::npos);
  }
  CHECK(Refusal("[scratch]\ndirs = ['/a']\nallow_tmpfs = ['/b']\n").find("/b") !=
        std::string::npos);
}

TEST_CASE("a file that is missing or no TOML is refused with its place") {
  environment.clear();
  Flags flags;
  for (const char* file : {"/nonexistent/parkaded.toml", "/"}) {
    flags.config_file = file;
    CHECK_FALSE(Load(flags).ok());
  }
  CHECK(Refusal("[host]\nbudget = \n").find("parkaded.toml:2") != std::string::npos);
}

TEST_CASE("there is a listener on the network only where all of it is configured") {
  environment.clear();
  const auto quiet = Load();
  REQUIRE(quiet.ok());
  CHECK_FALSE(quiet->tcp.has_value());
  CHECK(Shows(*quiet, "tcp.listen=no listener on the network (default)"));
  const std::string all =
      "[tcp]\nlisten = '[::1]:7463'\ncertificate = '/c'\nkey = '/k'\nclient_ca = '/a'\n";
  const auto config = Load({}, all + "clients = ['orchestrator', 'spiffe://x/y']\n");
  REQUIRE(config.ok());
  REQUIRE(config->tcp.has_value());
  CHECK(config->tcp->listen == "[::1]:7463");
  CHECK(config->tcp->clients == std::vector<std::string>{"orchestrator", "spiffe://x/y"});
  CHECK(Refusal(all).find("tcp.clients is missing") != std::string::npos);
  CHECK(Refusal("[tcp]\nlisten = 'a:1'\n").find("tcp.certificate is missing") != std::string::npos);
  CHECK(Refusal("[tcp]\nclients = ['x']\n").find("tcp.listen is missing") != std::string::npos);
  CHECK(Refusal("[tcp]\nport = '1'\n").find("unknown setting tcp.port") != std::string::npos);
  for (const std::string listen : {"host", "host:", ":1", "host:x", "host:70000", "host:-1"}) {
    INFO(listen);
    CHECK(Refusal("[tcp]\nlisten = '" + listen +
                  "'\ncertificate = '/c'\nkey = '/k'\nclient_ca = '/a'\nclients = ['x']\n")
              .find("tcp.listen is") != std::string::npos);
  }
}

TEST_CASE("metrics, recordings and the log's format are read from the file") {
  environment.clear();
  const auto quiet = Load();
  REQUIRE(quiet.ok());
  CHECK(quiet->metrics_listen.empty());
  CHECK(quiet->timeline_dir.empty());
  CHECK(Shows(*quiet, "metrics.listen=no metrics (default)"));
  const auto config = Load({},
                           "[daemon]\nlog_format = 'json'\n[metrics]\nlisten = '127.0.0.1:9464'\n"
                           "[timeline]\ndir = '/var/lib/t'\nlimit = '2G'\n");
  REQUIRE(config.ok());
  CHECK(config->log_format == LogFormat::kJson);
  CHECK(config->metrics_listen == "127.0.0.1:9464");
  CHECK(config->timeline_dir == "/var/lib/t");
  CHECK(config->timeline_limit == 2_GiB);
  CHECK(Refusal("[daemon]\nlog_format = 'xml'\n").find("neither text nor json") !=
        std::string::npos);
  CHECK(Refusal("[metrics]\nlisten = '9464'\n").find("not a host and a port") != std::string::npos);
  CHECK(Refusal("[timeline]\ndir = 'here'\n").find("not an absolute path") != std::string::npos);
  CHECK(Refusal("[timeline]\nlimit = 'all'\n").find("timeline.limit") != std::string::npos);
}

TEST_CASE("groups are read with their processes and policies") {
  const auto config = Load({},
                           "[groups.rollout]\njob = 'rl'\nrole = 'rollout'\nranks = [0, 3]\n"
                           "gpus = ['GPU-a']\npolicy = 'disk'\n"
                           "tags = { kv_cache = 'discard', weight = 'host' }\n"
                           "[groups.actor]\nrole = 'actor'\n");
  REQUIRE(config.ok());
  REQUIRE(config->groups.size() == 2);
  CHECK(config->groups[0].name == "actor");
  CHECK_FALSE(config->groups[0].policies.all.has_value());
  const Group& rollout = config->groups[1];
  CHECK(rollout.selector.job == "rl");
  CHECK(rollout.selector.ranks == std::vector<int32_t>{0, 3});
  CHECK(rollout.selector.gpu_uuids == std::vector<std::string>{"GPU-a"});
  CHECK(rollout.policies.all == wire::Policy::kDisk);
  CHECK(rollout.policies.by_tag ==
        std::map<std::string, wire::Policy>{{"kv_cache", wire::Policy::kDiscard},
                                            {"weights", wire::Policy::kHost}});
  CHECK(rollout.owner.empty());
}

TEST_CASE("a group that cannot be is refused by name") {
  for (const std::string wrong :
       {"job = 3", "ranks = 3", "ranks = [-1]", "ranks = ['a']", "ranks = [4294967296]",
        "policy = 'banana'", "policy = 'discard'", "tags = 'kv'", "tags = { kv = 'banana' }",
        "colour = 'red'", "gpus = []", ""}) {
    INFO(wrong);
    CHECK(Refusal("[groups.odd]\n" + wrong + "\n").find("groups.odd") != std::string::npos);
  }
  CHECK(Refusal("[groups]\nodd = 3\n").find("groups.odd") != std::string::npos);
  CHECK(Refusal("groups = 3\n").find("groups") != std::string::npos);
  CHECK(Refusal("[groups.'a b']\njob = 'rl'\n").find("a b") != std::string::npos);
}
