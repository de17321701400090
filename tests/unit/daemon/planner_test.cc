// The planner: grants, refusals and the order in which host memory is given.
#include "daemon/planner.h"

#include <catch2/catch.hpp>

#include "common/text.h"
#include "daemon/measured_rates.h"
#include "daemon/status.h"

using namespace parkade;
using namespace parkade::daemon;
using wire::Policy;

namespace {

Demand Needs(int pid, std::map<std::string, Bytes> by_tag) {
  Demand demand;
  demand.pid = pid;
  demand.by_tag = std::move(by_tag);
  for (const auto& [tag, bytes] : demand.by_tag) demand.largest = std::max(demand.largest, bytes);
  return demand;
}

Policies All(Policy policy, std::map<std::string, Policy> by_tag = {}) {
  return {policy, std::move(by_tag)};
}

}  // namespace

TEST_CASE("policy host grants host memory for all bytes and no disk") {
  const Demand demands[] = {Needs(1, {{"default", 10_MiB}, {"weights", 6_MiB}})};
  const auto grants = Plan(All(Policy::kHost), demands, 100_MiB);
  REQUIRE(grants.ok());
  CHECK((*grants)[0].host == 16_MiB);
  CHECK((*grants)[0].new_host == 16_MiB);
  CHECK((*grants)[0].disk == 0);
}

TEST_CASE("policy host that does not fit is refused with what it needs and what is free") {
  const Demand demands[] = {Needs(1, {{"default", 10_MiB}}), Needs(2, {{"default", 10_MiB}})};
  const auto grants = Plan(All(Policy::kHost), demands, 15_MiB);
  REQUIRE(grants.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(ReasonOf(grants.status()) == "HOST_MEMORY");
  CHECK(MetadataOf(grants.status())["needed_bytes"] == std::to_string(20_MiB));
  CHECK(MetadataOf(grants.status())["free_bytes"] == std::to_string(15_MiB));
}

TEST_CASE("pinned memory that a process holds already is not counted as new") {
  Demand demand = Needs(1, {{"default", 10_MiB}});
  demand.reusable = 8_MiB;
  const auto grants = Plan(All(Policy::kHost), {&demand, 1}, 2_MiB);
  REQUIRE(grants.ok());
  CHECK((*grants)[0].host == 10_MiB);
  CHECK((*grants)[0].new_host == 2_MiB);
}

TEST_CASE("policy auto fills host memory and sends the rest to disk, with room for one piece") {
  const Demand demands[] = {Needs(1, {{"default", 10_MiB}})};
  const auto grants = Plan(All(Policy::kAuto), demands, 4_MiB);
  REQUIRE(grants.ok());
  CHECK((*grants)[0].host == 4_MiB);
  // The piece that does not fit into the last 4 MiB goes to disk whole.
  CHECK((*grants)[0].disk == 10_MiB);
}

TEST_CASE("policy auto takes no disk when everything fits") {
  const Demand demands[] = {Needs(1, {{"default", 10_MiB}})};
  const auto grants = Plan(All(Policy::kAuto), demands, 10_MiB);
  REQUIRE(grants.ok());
  CHECK((*grants)[0].host == 10_MiB);
  CHECK((*grants)[0].disk == 0);
}

TEST_CASE("those that must have host memory come before those that may go to disk") {
  Demand first = Needs(1, {{"default", 10_MiB}});
  first.process_default = Policy::kAuto;
  Demand second = Needs(2, {{"default", 10_MiB}});
  const Demand demands[] = {first, second};
  const auto grants = Plan({}, demands, 12_MiB);
  REQUIRE(grants.ok());
  CHECK((*grants)[0].host == 2_MiB);
  CHECK((*grants)[0].disk >= 8_MiB);
  CHECK((*grants)[1].host == 10_MiB);
}

TEST_CASE("a budget for fifty of eighty gigabytes sends the rest to disk") {
  std::vector<Demand> demands;
  for (int i = 0; i < 8; ++i) demands.push_back(Needs(i, {{"default", 10_GiB}}));
  const auto grants = Plan(All(Policy::kAuto), demands, 50_GiB);
  REQUIRE(grants.ok());
  Bytes host = 0, disk = 0;
  for (const Grant& grant : *grants) {
    host += grant.host;
    disk += grant.disk;
  }
  CHECK(host == 50_GiB);
  CHECK(disk >= 30_GiB);
  CHECK(disk <= 30_GiB + 8 * 512_MiB);
}

TEST_CASE("discarded and kept bytes are granted nothing") {
  const Demand demands[] = {
      Needs(1, {{"kv_cache", 7_MiB}, {"weights", 3_MiB}, {"default", 1_MiB}})};
  const auto grants = Plan(
      All(Policy::kDisk, {{"kv_cache", Policy::kDiscard}, {"weights", Policy::kKeep}}), demands, 0);
  REQUIRE(grants.ok());
  CHECK((*grants)[0].host == 0);
  CHECK((*grants)[0].disk == 1_MiB);
}

TEST_CASE("bytes that only the drained process knows of are granted too") {
  Demand demand = Needs(1, {{"default", 10_MiB}});
  demand.exact = 11_MiB;
  const auto grants = Plan(All(Policy::kDisk), {&demand, 1}, 0);
  REQUIRE(grants.ok());
  CHECK((*grants)[0].disk == 11_MiB);
}

TEST_CASE("a control group that is nearly full refuses policy host and limits auto") {
  Demand demand = Needs(7, {{"default", 10_MiB}});
  demand.groups = {{"/sys/fs/cgroup/pod", 4_MiB}};
  const auto refused = Plan(All(Policy::kHost), {&demand, 1}, 100_MiB);
  REQUIRE(ReasonOf(refused.status()) == "HOST_MEMORY");
  CHECK(MetadataOf(refused.status())["pid"] == "7");
  const auto grants = Plan(All(Policy::kAuto), {&demand, 1}, 100_MiB);
  REQUIRE(grants.ok());
  CHECK((*grants)[0].host == 4_MiB);
}

TEST_CASE("processes of one control group share what it has free, others do not") {
  const MemoryGroup pod{"/pod", 15_MiB}, inner{"/pod/inner", 8_MiB};
  Demand demands[] = {Needs(1, {{"default", 10_MiB}}), Needs(2, {{"default", 10_MiB}}),
                      Needs(3, {{"default", 10_MiB}})};
  demands[0].groups = {inner, pod};
  demands[1].groups = {pod};
  const auto refused = Plan(All(Policy::kHost), demands, 1_GiB);
  REQUIRE(ReasonOf(refused.status()) == "HOST_MEMORY");
  CHECK(MetadataOf(refused.status())["cgroup"] == "/pod/inner");
  demands[0].groups = {pod};
  const auto together = Plan(All(Policy::kHost), demands, 1_GiB);
  REQUIRE(ReasonOf(together.status()) == "HOST_MEMORY");
  CHECK(MetadataOf(together.status())["needed_bytes"] == std::to_string(20_MiB));
  CHECK(MessageOf(together.status()).find("20.0 MiB") != std::string::npos);

  demands[0].groups = {inner, pod};
  const auto grants = Plan(All(Policy::kAuto), demands, 1_GiB);
  REQUIRE(grants.ok());
  CHECK((*grants)[0].host == 8_MiB);
  CHECK((*grants)[1].host == 7_MiB);
  CHECK((*grants)[2].host == 10_MiB);
}

TEST_CASE("a way to disk takes its stage out of the control group, smaller where there is little") {
  Demand demand = Needs(1, {{"default", 100_MiB}});
  demand.stage = 64_MiB;
  const auto grant = [&](Policy policy) {
    const auto grants = Plan(All(policy), {&demand, 1}, 1_GiB);
    REQUIRE(grants.ok());
    return (*grants)[0];
  };
  CHECK(grant(Policy::kHost).stage == 0);
  CHECK(grant(Policy::kDisk).stage == 64_MiB);
  demand.groups = {{"/pod", 50_MiB}};
  CHECK(grant(Policy::kDisk).stage == 50_MiB);
  const Grant split = grant(Policy::kAuto);
  CHECK(split.host == 34_MiB);
  CHECK(split.stage == 16_MiB);
  CHECK(split.disk >= 66_MiB);
  demand.groups = {{"/pod", 1_MiB}};
  CHECK(grant(Policy::kDisk).stage == 16_MiB);  // nothing moves without one
  CHECK(grant(Policy::kAuto).host == 0);
  demand.groups = {{"/pod", 200_MiB}};
  CHECK(grant(Policy::kAuto).stage == 0);  // all of it fits on the host
}

TEST_CASE("a tag that none of the processes has is unknown") {
  const Demand demands[] = {Needs(1, {{"default", 1_MiB}}), Needs(2, {{"weights", 1_MiB}})};
  CHECK(Plan(All(Policy::kHost, {{"weights", Policy::kKeep}}), demands, 1_GiB).ok());
  const auto grants = Plan(All(Policy::kHost, {{"optimizer", Policy::kKeep}}), demands, 1_GiB);
  REQUIRE(grants.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(ReasonOf(grants.status()) == "UNKNOWN_TAG");
}

TEST_CASE("policies are refused that lose everything or name too much") {
  CHECK(ReasonOf(CheckPolicies(All(Policy::kDiscard))) == "BAD_POLICY");
  CHECK(CheckPolicies(All(Policy::kHost, {{"kv_cache", Policy::kDiscard}})).ok());
  std::map<std::string, Policy> many;
  for (int i = 0; i < 17; ++i) many[std::to_string(i)] = Policy::kKeep;
  CHECK(ReasonOf(CheckPolicies(All(Policy::kHost, many))) == "BAD_POLICY");
  CHECK(ReasonOf(CheckPolicies(All(Policy::kHost, {{"", Policy::kKeep}}))) == "UNKNOWN_TAG");
  CHECK(ReasonOf(CheckPolicies(All(Policy::kHost, {{std::string(32, 'x'), Policy::kKeep}}))) ==
        "UNKNOWN_TAG");
}

TEST_CASE("a demand counts what can move now and knows the tags of what cannot") {
  wire::LedgerView ledger{};
  ledger.header.host_pool_bytes = 5_MiB;
  ledger.header.host_backup_bytes = 1_MiB;
  const auto add = [&](Bytes bytes, const char* tag, wire::AllocationClass c, wire::Place place) {
    wire::LedgerRecord r{};
    r.bytes = bytes;
    r.allocation_class = uint32_t(c);
    r.place = uint32_t(place);
    CopyText(r.tag, tag);
    ledger.records.push_back(r);
  };
  add(1, "a", wire::AllocationClass::kPausable, wire::Place::kGpu);
  add(4097, "a", wire::AllocationClass::kPausable, wire::Place::kGpu);
  add(1_MiB, "shared", wire::AllocationClass::kHeld, wire::Place::kGpu);
  add(2_MiB, "foreign", wire::AllocationClass::kForeign, wire::Place::kGpu);
  add(1_MiB, "b", wire::AllocationClass::kPausable, wire::Place::kHost);
  const Demand demand = DemandOf(1, Policy::kHost, ledger);
  CHECK(demand.by_tag ==
        std::map<std::string, Bytes>{{"a", 3 * 4096}, {"b", 0}, {"shared", 1_MiB}});
  CHECK(demand.largest == 1_MiB);
  CHECK(demand.reusable == 4_MiB);
  // What other processes of the group import is theirs to let go of, and has its tag's policy.
  Policies policies;
  policies.all = Policy::kKeep;
  policies.by_tag["shared"] = Policy::kDisk;
  const auto grants = Plan(policies, std::vector{demand}, 0);
  REQUIRE(grants.ok());
  CHECK(grants->at(0).disk == 1_MiB);
}

TEST_CASE("of tags that are listed alone the others stay, whatever their policy would be") {
  const Demand demands[] = {Needs(1, {{"default", 10_MiB}, {"weights", 6_MiB}, {"kv", 4_MiB}})};
  Policies policies = All(Policy::kHost, {{"weights", Policy::kDisk}});
  policies.only = {"weights", "kv"};
  const auto grants = Plan(policies, demands, 100_MiB);
  REQUIRE(grants.ok());
  CHECK((*grants)[0].host == 4_MiB);
  CHECK((*grants)[0].disk == 6_MiB);
  CHECK(policies.ForRest(Policy::kHost) == Policy::kKeep);
  CHECK(policies.Named(Policy::kAuto) ==
        std::map<std::string, Policy>{{"weights", Policy::kDisk}, {"kv", Policy::kHost}});
  policies.all = Policy::kDiscard;  // of the tags that are named
  CHECK(CheckPolicies(policies).ok());
  policies.only.assign(17, "");
  for (size_t i = 0; i < 17; ++i) policies.only[i] = "t" + std::to_string(i);
  CHECK(ReasonOf(CheckPolicies(policies)) == "BAD_POLICY");
}

TEST_CASE("a tag that nobody has is refused with those that they have, unless that is allowed") {
  const Demand demands[] = {Needs(1, {{"default", 1}}), Needs(2, {{"kv\n", 1}, {"default", 1}})};
  Policies policies = All(Policy::kHost);
  policies.only = {"weights"};
  const auto refused = Plan(policies, demands, 100_MiB).status();
  CHECK(ReasonOf(refused) == "UNKNOWN_TAG");
  CHECK(MetadataOf(refused)["tag"] == "weights");
  CHECK(MetadataOf(refused)["known_tags"] == "default,kv?");
  policies.allow_unknown = true;
  const auto grants = Plan(policies, demands, 100_MiB);
  REQUIRE(grants.ok());
  CHECK((*grants)[0].host + (*grants)[0].disk == 0);
}

TEST_CASE("what a grant makes of each tag adds up to what it grants") {
  const Demand demand =
      Needs(1, {{"a", 10_MiB}, {"b", 6_MiB}, {"c", 4_MiB}, {"d", 2_MiB}, {"e", 1_MiB}});
  const Policies policies = All(
      Policy::kAuto,
      {{"b", Policy::kHost}, {"c", Policy::kDiscard}, {"d", Policy::kKeep}, {"e", Policy::kDisk}});
  const auto grants = Plan(policies, std::span(&demand, 1), 9_MiB);
  REQUIRE(grants.ok());
  const auto shares = SharesOf(policies, demand, (*grants)[0]);
  REQUIRE(shares.size() == 5);
  CHECK(shares[0].host == 3_MiB);  // what the tag that must be there leaves of the host's 9
  CHECK(shares[0].disk == 7_MiB);
  CHECK(shares[1].host == 6_MiB);
  CHECK(shares[2].discarded == 4_MiB);
  CHECK(shares[3].kept == 2_MiB);
  CHECK(shares[4].disk == 1_MiB);
}

TEST_CASE("rates say how long a move takes once one of its kind was seen") {
  MeasuredRates rates;
  wire::Stats stats{};
  stats.host_bytes = 1_GiB;
  stats.move_ns = 500'000'000;
  rates.Note(Way::kOut, stats);
  CHECK(*rates.SecondsFor(Way::kOut, 4_GiB, 0) == Approx(2.0));
  CHECK_FALSE(rates.SecondsFor(Way::kIn, 4_GiB, 0).has_value());
  CHECK_FALSE(rates.SecondsFor(Way::kOut, 4_GiB, 1).has_value());
  CHECK(rates.SecondsFor(Way::kIn, 0, 0) == 0.0);
  stats.host_bytes = 1_MiB;  // too little to tell
  stats.move_ns = 1'000'000'000;
  rates.Note(Way::kOut, stats);
  CHECK(*rates.SecondsFor(Way::kOut, 4_GiB, 0) == Approx(2.0));
}

TEST_CASE(
    "under write-behind what is for the disk takes host memory first, and disk for all of it") {
  const Demand demands[] = {Needs(1, {{"default", 10_MiB}, {"weights", 6_MiB}, {"kv", 4_MiB}})};
  Policies policies = All(Policy::kDisk, {{"weights", Policy::kHost}, {"kv", Policy::kAuto}});
  policies.write_behind = true;
  const auto whole = Plan(policies, demands, 100_MiB);
  REQUIRE(whole.ok());
  CHECK((*whole)[0].host == 20_MiB);
  CHECK((*whole)[0].disk == 14_MiB);  // what is for the host stays there
  CHECK_FALSE((*whole)[0].spills);
  CHECK(policies.ForRest(Policy::kHost) == Policy::kAuto);
  CHECK(policies.Named(Policy::kHost).at("weights") == Policy::kHost);
  const auto part = Plan(policies, demands, 12_MiB);
  REQUIRE(part.ok());
  CHECK((*part)[0].host == 12_MiB);
  CHECK((*part)[0].disk == 14_MiB);
  CHECK((*part)[0].spills);
  const auto shares = SharesOf(policies, demands[0], (*part)[0]);
  CHECK(shares[0].host == 6_MiB);
  CHECK(shares[0].disk == 4_MiB);
  CHECK(shares[2].host == 6_MiB);
}

TEST_CASE("what stays where it is takes host memory as far as there is some, and no disk") {
  Demand demand = Needs(1, {{"", 10_MiB}});
  demand.stays = true;
  const auto part = Plan(All(Policy::kAuto), std::span(&demand, 1), 4_MiB);
  REQUIRE(part.ok());
  CHECK((*part)[0].host == 4_MiB);
  CHECK((*part)[0].disk == 0);
  CHECK((*part)[0].spills);
}
