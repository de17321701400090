// Reload: what changes at once and what is left for the next start.
#include "daemon/reload.h"

#include <catch2/catch.hpp>

using namespace parkade;
using namespace parkade::daemon;

namespace {

Group Named(const std::string& name) {
  Group group;
  group.name = name;
  group.selector.role = "actor";
  return group;
}

Config Of(std::map<std::string, std::string> values) {
  Config config;
  config.values = std::move(values);
  return config;
}

}  // namespace

TEST_CASE("a reload changes budget and groups, and names what needs a restart each time") {
  Registry registry;
  Budgets budgets(1_GiB, registry);
  Groups groups({Named("before"), Named("both")});
  const Caller root{0, true};
  Group own = Named("mine");
  own.owner = root.Name();
  REQUIRE(groups.Define(own).ok());

  Config current = Of({{"host.budget", "1G"}, {"scratch.dirs", "/a"}, {"tcp.key", "/k"}});
  Config fresh = Of({{"host.budget", "2G"}, {"scratch.dirs", "/b"}});
  fresh.host_budget = 2_GiB;
  fresh.groups = {Named("both"), Named("mine")};
  const std::string said = Reload(fresh, current, budgets, groups);
  CHECK(said == "changed: host.budget; 2 groups; after a restart: scratch.dirs, tcp.key");
  CHECK(budgets.Look().front().limits.host == 2_GiB);
  std::vector<std::string> names;
  for (const Group& group : groups.List(root)) names.push_back(group.name + group.owner);
  CHECK(names == std::vector<std::string>{"both", "mine"});

  CHECK(Reload(fresh, current, budgets, groups) ==
        "changed: no setting; 2 groups; after a restart: scratch.dirs, tcp.key");
}
