// Compares setting by setting.
#include "daemon/reload.h"

#include <set>
#include <vector>

#include "common/log.h"
#include "common/log_level.h"
#include "daemon/words.h"

namespace parkade::daemon {

std::string Reload(const Config& fresh, Config& current, Budgets& budgets, Groups& groups) {
  const std::set<std::string> at_once{"daemon.log_level", "host.budget"};
  std::vector<std::string> now, later;
  // A listener on the network that comes or goes has other settings than before.
  std::map<std::string, std::string> was = current.values;
  for (const auto& [name, value] : fresh.values) was.try_emplace(name, "");
  for (const auto& [name, old] : was) {
    const auto at = fresh.values.find(name);
    const std::string value = at == fresh.values.end() ? "" : at->second;
    if (value == old) continue;
    const bool applies = at_once.contains(name);
    (applies ? now : later).push_back(name);
    if (applies) current.values[name] = value;
    Log(applies ? LogLevel::kInfo : LogLevel::kWarning, "reload: %s=%s, before %s%s", name.c_str(),
        value.c_str(), old.c_str(), applies ? "" : ": holds from the next start on");
  }
  SetLogLevel(fresh.log_level);
  budgets.Configure(fresh.host_budget);
  groups.Configure(fresh.groups);
  current.log_level = fresh.log_level;
  current.host_budget = fresh.host_budget;
  current.groups = fresh.groups;
  const std::string changed = now.empty() ? "no setting" : Join(now, ", ");
  std::string all = Cat("changed: ", changed, "; ", fresh.groups.size(), " groups");
  if (!later.empty()) all += Cat("; after a restart: ", Join(later, ", "));
  return all;
}

}  // namespace parkade::daemon
