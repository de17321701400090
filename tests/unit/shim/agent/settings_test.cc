// What the environment may ask for, where values come from, and what is refused in words.
#include "shim/agent/settings.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <map>

namespace parkade::shim {
namespace {

std::map<std::string, std::string> environment;

const char* Get(const char* name) {
  const auto at = environment.find(name);
  return at == environment.end() ? nullptr : at->second.c_str();
}

Settings Read(std::map<std::string, std::string> values) {
  environment = std::move(values);
  return ReadSettings(Get);
}

bool Says(const std::string& text, const std::string& line) {
  return text.find(line + "\n") != std::string::npos;
}

TEST_CASE("what tells bytes that need not move is one of three ways") {
  CHECK(Read({}).elision == wire::Elision::kHash);
  CHECK(Read({{"PARKADE_ELISION", "bytes"}}).elision == wire::Elision::kBytes);
  CHECK(Read({{"PARKADE_ELISION", "off"}}).elision == wire::Elision::kOff);
  const Settings refused = Read({{"PARKADE_ELISION", "maybe"}});
  CHECK(refused.elision == wire::Elision::kHash);
  CHECK(refused.warnings.find("hash, bytes and off are known") != std::string::npos);
}

TEST_CASE("what is discarded is poisoned only where that is asked for") {
  CHECK_FALSE(Read({}).poisons);
  CHECK_FALSE(Read({{"PARKADE_POISON", "off"}}).poisons);
  CHECK(Read({{"PARKADE_POISON", "on"}}).poisons);
  const Settings refused = Read({{"PARKADE_POISON", "0xCB"}});
  CHECK_FALSE(refused.poisons);
  CHECK(refused.warnings.find("on and off are known") != std::string::npos);
}

TEST_CASE("an empty environment gives defaults and says that they are defaults") {
  const Settings s = Read({});
  CHECK(s.socket_path == "/run/parkade/shim.sock");
  CHECK(s.rank == -1);
  CHECK(s.policy == wire::Policy::kHost);
  CHECK(s.scratch_base.empty());
  CHECK(Says(s.lines, "socket=/run/parkade/shim.sock (default)"));
  CHECK(Says(s.lines, "policy=host (default)"));
  CHECK(s.warnings.empty());
}

TEST_CASE("our own variables win over the launchers' and name themselves as the source") {
  const Settings s = Read({{"PARKADE_JOB", "j"},
                           {"SLURM_JOB_ID", "77"},
                           {"PARKADE_RANK", "3"},
                           {"RANK", "5"},
                           {"PARKADE_ROLE", "actor"},
                           {"PARKADE_CELL", "c0"},
                           {"PARKADE_POLICY", "disk"},
                           {"PARKADE_RUNTIME_DIR", "/tmp/rt"}});
  CHECK(s.job == "j");
  CHECK(s.rank == 3);
  CHECK(s.role == "actor");
  CHECK(s.cell == "c0");
  CHECK(s.policy == wire::Policy::kDisk);
  CHECK(s.socket_path == "/tmp/rt/shim.sock");
  CHECK(Says(s.lines, "rank=3 (PARKADE_RANK)"));
  CHECK(s.warnings.empty());
}

TEST_CASE("the tag of memory that has none") {
  CHECK(Read({}).tag == "default");
  const Settings s = Read({{"PARKADE_TAG", "rollout/weights"}});
  CHECK(s.tag == "rollout/weights");
  CHECK(Says(s.lines, "tag=rollout/weights (PARKADE_TAG)"));
  for (const char* bad : {"a b", "a,b", "x=host", "12345678901234567890123456789012"}) {
    const Settings refused = Read({{"PARKADE_TAG", bad}});
    CHECK(refused.tag == "default");
    CHECK(
        Says(refused.warnings, std::string("PARKADE_TAG=") + bad +
                                   " is ignored: a tag is 1 to 31 letters, digits and _ - . : /"));
  }
}

TEST_CASE("labels of torchrun, Slurm and MPI are understood") {
  CHECK(Read({{"RANK", "5"}, {"TORCHELASTIC_RUN_ID", "run"}}).rank == 5);
  CHECK(Read({{"TORCHELASTIC_RUN_ID", "run"}}).job == "run");
  CHECK(Read({{"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", "1"}}).job == "77");
  CHECK(Read({{"SLURM_PROCID", "1"}}).rank == 1);
  CHECK(Read({{"OMPI_COMM_WORLD_RANK", "2"}}).rank == 2);
  CHECK(Read({{"PMIX_RANK", "4"}}).rank == 4);
}

TEST_CASE("values that cannot be meant keep the default and are named") {
  const Settings s = Read({{"PARKADE_RANK", "-1"},
                           {"PARKADE_POLICY", "discard"},
                           {"PARKADE_SCRATCH_DIR", "relative"},
                           {"PARKADE_JOB", std::string(64, 'j')}});
  CHECK(s.rank == -1);
  CHECK(s.policy == wire::Policy::kHost);
  CHECK(s.scratch_base.empty());
  CHECK(s.job.empty());
  for (const char* name : {"PARKADE_RANK=-1", "PARKADE_POLICY=discard",
                           "PARKADE_SCRATCH_DIR=relative", "PARKADE_JOB=jj"}) {
    INFO(name);
    CHECK(s.warnings.find(name) != std::string::npos);
  }
  CHECK(Read({{"RANK", "3x"}}).rank == -1);
  CHECK(Read({{"RANK", ""}}).rank == -1);
  CHECK(Read({{"RANK", ""}}).warnings.empty());  // set but empty is unset
}

TEST_CASE("PARKADE_SCRATCH_DIR is meant; a directory under SCRATCH yields to the daemon's own") {
  const Settings meant = Read({{"PARKADE_SCRATCH_DIR", "/nvme/a"}, {"SCRATCH", "/s"}});
  CHECK(meant.scratch_base == "/nvme/a");
  CHECK_FALSE(meant.scratch_base_yields);
  const Settings fallback = Read({{"SCRATCH", "/s"}});
  CHECK(fallback.scratch_base == "/s/parkade_" + std::to_string(getuid()));
  CHECK(fallback.scratch_base_yields);
}

TEST_CASE("PARKADE_PREWARM is a size or auto, nothing where it is neither") {
  CHECK(Read({}).prewarm == 0);
  const Settings meant = Read({{"PARKADE_PREWARM", "64G"}});
  CHECK(meant.prewarm == 64_GiB);
  CHECK(meant.lines.find("prewarm=64G (PARKADE_PREWARM)") != std::string::npos);
  CHECK(Read({{"PARKADE_PREWARM", "auto"}}).prewarm == Prewarm::kAuto);
  for (const char* bad : {"0", "-1G", "much", "1.5G"}) {
    const Settings refused = Read({{"PARKADE_PREWARM", bad}});
    CHECK(refused.prewarm == 0);
    CHECK(refused.warnings.find(bad) != std::string::npos);
  }
}

TEST_CASE("PARKADE_LOG is one of the log's levels, warning where it is not") {
  CHECK(Read({}).log_level == LogLevel::kWarning);
  const Settings meant = Read({{"PARKADE_LOG", "debug"}});
  CHECK(meant.log_level == LogLevel::kDebug);
  CHECK(meant.lines.find("log=debug (PARKADE_LOG)") != std::string::npos);
  const Settings refused = Read({{"PARKADE_LOG", "loud"}});
  CHECK(refused.log_level == LogLevel::kWarning);
  CHECK(refused.warnings.find("PARKADE_LOG=loud is ignored") != std::string::npos);
}

TEST_CASE("PARKADE_WAKE is 1 or 0, off where it cannot be meant") {
  CHECK_FALSE(Read({}).takes_turns);
  const Settings meant = Read({{"PARKADE_WAKE", "1"}});
  CHECK(meant.takes_turns);
  CHECK(meant.lines.find("wake=1 (PARKADE_WAKE)") != std::string::npos);
  const Settings refused = Read({{"PARKADE_WAKE", "yes"}});
  CHECK_FALSE(refused.takes_turns);
  CHECK(refused.warnings.find("PARKADE_WAKE=yes is ignored") != std::string::npos);
}

TEST_CASE("PARKADE_ALLOC_WAIT is whole seconds, off where it cannot be meant") {
  CHECK(Read({}).alloc_wait_ms == 0);
  const Settings meant = Read({{"PARKADE_ALLOC_WAIT", "30"}});
  CHECK(meant.alloc_wait_ms == 30'000);
  CHECK(meant.lines.find("alloc_wait=30 (PARKADE_ALLOC_WAIT)") != std::string::npos);
  for (const char* bad : {"-1", "1.5", "soon", "86401", "99999999999999999999"}) {
    const Settings refused = Read({{"PARKADE_ALLOC_WAIT", bad}});
    CHECK(refused.alloc_wait_ms == 0);
    CHECK(refused.warnings.find(bad) != std::string::npos);
  }
}

TEST_CASE("only PARKADE=off makes the shim inert") {
  environment = {{"PARKADE", "off"}};
  CHECK(IsOff(Get));
  environment = {{"PARKADE", "on"}};
  CHECK_FALSE(IsOff(Get));
  environment = {};
  CHECK_FALSE(IsOff(Get));
}

}  // namespace
}  // namespace parkade::shim
