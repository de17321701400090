// Reads each group key by key.
#include "daemon/config_groups.h"

#include <optional>

#include "daemon/status.h"
#include "daemon/tags.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

std::optional<wire::Policy> PolicyNamed(std::string_view name) {
  if (name == "host") return wire::Policy::kHost;
  if (name == "disk") return wire::Policy::kDisk;
  if (name == "auto") return wire::Policy::kAuto;
  if (name == "discard") return wire::Policy::kDiscard;
  if (name == "keep") return wire::Policy::kKeep;
  return std::nullopt;
}

std::optional<wire::Policy> PolicyIn(const toml::node& node) {
  return node.is_string() ? PolicyNamed(node.as_string()->get()) : std::nullopt;
}

// False: the value is not what this key takes.
bool ReadText(const toml::node& node, std::string& to) {
  if (!node.is_string() || node.as_string()->get().empty()) return false;
  to = node.as_string()->get();
  return true;
}

bool ReadRanks(const toml::node& node, std::vector<int32_t>& to) {
  if (!node.is_array()) return false;
  for (const auto& item : *node.as_array()) {
    const auto rank = item.value_exact<int64_t>();
    if (!rank || *rank < 0 || *rank > INT32_MAX) return false;
    to.push_back(int32_t(*rank));
  }
  return !to.empty();
}

bool ReadTexts(const toml::node& node, std::vector<std::string>& to) {
  if (!node.is_array()) return false;
  for (const auto& item : *node.as_array()) {
    if (!ReadText(item, to.emplace_back())) return false;
  }
  return !to.empty();
}

bool ReadTagPolicies(const toml::node& node, Policies& to) {
  if (!node.is_table()) return false;
  for (const auto& [tag, value] : *node.as_table()) {
    const auto policy = PolicyIn(value);
    if (!policy) return false;
    to.by_tag[TagName(tag.str())] = *policy;
  }
  return true;
}

bool ReadKey(std::string_view key, const toml::node& node, Group& to) {
  Selector& selector = to.selector;
  if (key == "job") return ReadText(node, selector.job);
  if (key == "role") return ReadText(node, selector.role);
  if (key == "cell") return ReadText(node, selector.cell);
  if (key == "ranks") return ReadRanks(node, selector.ranks);
  if (key == "gpus") return ReadTexts(node, selector.gpu_uuids);
  if (key == "tags") return ReadTagPolicies(node, to.policies);
  if (key != "policy") return false;
  to.policies.all = PolicyIn(node);
  return to.policies.all.has_value();
}

}  // namespace

std::vector<Group> ReadGroups(const toml::table& groups, const std::string& file,
                              Mistakes& mistakes) {
  std::vector<Group> all;
  for (const auto& [key, node] : groups) {
    Group group;
    group.name = std::string(key.str());
    const std::string shown = Cat("groups.", group.name);
    if (!node.is_table()) {
      mistakes.Add(PlaceOf(node, file), shown, "a table is expected");
      continue;
    }
    bool read = true;
    for (const auto& [name, value] : *node.as_table()) {
      if (ReadKey(name.str(), value, group)) continue;
      read = false;
      mistakes.Add(PlaceOf(value, file), Cat(shown, ".", name.str()),
                   "is unknown or has no value that it can have: job, role and cell "
                   "are texts, ranks and gpus lists, policy is host, disk, auto or keep, tags "
                   "a table of policies");
    }
    if (!read) continue;
    if (auto s = Check(group); !s.ok()) {
      mistakes.Add(PlaceOf(node, file), shown, MessageOf(s));
    } else {
      all.push_back(std::move(group));
    }
  }
  return all;
}

}  // namespace parkade::daemon
