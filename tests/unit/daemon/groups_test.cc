// Groups: whose they are, what is refused, and what outlives the daemon.
#include "daemon/groups.h"

#include <catch2/catch.hpp>

#include "daemon/status.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

Group Of(const std::string& name, const std::string& job, const std::string& owner = "uid 1") {
  Group group{name, {}, {}, owner};
  group.selector.job = job;
  return group;
}

const Caller kOne{.uid = 1};
const Caller kTwo{.uid = 2};

}  // namespace

TEST_CASE("a caller uses its own groups and those of the configuration") {
  Groups groups({Of("file", "all", "")});
  REQUIRE(groups.Define(Of("mine", "rl")).ok());
  REQUIRE(groups.Define(Of("mine", "other", "uid 2")).ok());
  CHECK(groups.Find(kOne, "mine")->selector.job == "rl");
  CHECK(groups.Find(kTwo, "mine")->selector.job == "other");
  CHECK(groups.Find(kTwo, "file")->selector.job == "all");
  CHECK(groups.List(kOne).size() == 2);
  REQUIRE(groups.Define(Of("mine", "new")).ok());
  CHECK(groups.Find(kOne, "mine")->selector.job == "new");
  REQUIRE(groups.Remove(kOne, "mine").ok());
  const auto gone = groups.Find(kOne, "mine").status();
  CHECK(ReasonOf(gone) == "NO_GROUP");
  CHECK(MetadataOf(gone)["known_groups"] == "file");
  CHECK(groups.Find(kTwo, "mine").ok());
  CHECK(ReasonOf(groups.Remove(kOne, "mine")) == "NO_GROUP");
  CHECK(ReasonOf(groups.Remove(kOne, "file")) == "NO_GROUP");
}

TEST_CASE("what is no group is refused, and so is another one of a configured name") {
  Groups groups({Of("file", "all", "")});
  CHECK(ReasonOf(groups.Define(Of("file", "rl"))) == "GROUP_CONFIGURED");
  for (const std::string name : {"", "a b", "a/b", "\xc3\xa4"}) {
    CHECK(ReasonOf(groups.Define(Of(name, "rl"))) == "BAD_GROUP");
  }
  CHECK(ReasonOf(groups.Define(Of(std::string(64, 'a'), "rl"))) == "BAD_GROUP");
  CHECK(groups.Define(Of(std::string(63, 'a'), "rl")).ok());
  CHECK(ReasonOf(groups.Define(Of("empty", ""))) == "BAD_SELECTOR");
  Group discard = Of("discard", "rl");
  discard.policies.all = wire::Policy::kDiscard;
  CHECK(ReasonOf(groups.Define(discard)) == "BAD_POLICY");
}

TEST_CASE("nobody fills the daemon with groups") {
  Groups groups({});
  for (int i = 0; i < 256; ++i) REQUIRE(groups.Define(Of(std::to_string(i), "rl")).ok());
  CHECK(ReasonOf(groups.Define(Of("more", "rl"))) == "TOO_MANY_GROUPS");
  CHECK(groups.Define(Of("255", "new")).ok());
  CHECK(groups.Define(Of("more", "rl", "uid 2")).ok());
}

TEST_CASE("the next daemon knows the groups that callers have defined, and not those they forgot") {
  const testing::TestDir dir;
  const std::string boot = "00000000-0000-4000-8000-000000000000";
  Group whole = Of("whole", "rl");
  whole.selector.pids = {7};
  whole.selector.ranks = {0, 3};
  whole.selector.gpu_uuids = {"GPU-a"};
  whole.policies = {wire::Policy::kAuto, {{"kv_cache", wire::Policy::kDiscard}}};
  {
    Journal journal(dir.path(), boot);
    Groups groups({}, &journal);
    REQUIRE(groups.Define(whole).ok());
    REQUIRE(groups.Define(Of("gone", "rl")).ok());
    REQUIRE(groups.Define(Of("file", "rl")).ok());
    REQUIRE(groups.Remove(kOne, "gone").ok());
  }
  // Read twice: the journal is written anew at each start.
  for (int i = 0; i < 2; ++i) {
    Journal journal(dir.path(), boot);
    const Groups groups({Of("file", "all", "")}, &journal);
    CHECK(groups.List(kOne).size() == 2);
    const auto found = groups.Find(kOne, "whole");
    REQUIRE(found.ok());
    CHECK(found->selector.ranks == whole.selector.ranks);
    CHECK(found->selector.pids == whole.selector.pids);
    CHECK(found->selector.gpu_uuids == whole.selector.gpu_uuids);
    CHECK(found->policies.all == wire::Policy::kAuto);
    CHECK(found->policies.by_tag == whole.policies.by_tag);
    CHECK(groups.Find(kOne, "file")->selector.job == "all");
  }
}
