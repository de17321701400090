// Looks each setting up in its three places.
#include "daemon/settings.h"

#include <algorithm>

#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {

void Mistakes::Add(std::string_view place, std::string_view name, std::string_view what) {
  lines_.push_back(Cat(place, place.empty() ? "" : ": ", name, ": ", what));
}

absl::Status Mistakes::ToStatus() const {
  if (lines_.empty()) return absl::OkStatus();
  return Fail(absl::StatusCode::kInvalidArgument, "BAD_CONFIG", Join(lines_, "\n"));
}

std::string Setting::text() const { return Join(value, ":"); }

std::string PlaceOf(const toml::node& node, std::string_view file_name) {
  return Cat(file_name, ":", node.source().begin.line);
}

SettingSources::SettingSources(const toml::table& file, std::string_view file_name,
                               Environment environment, Mistakes& mistakes)
    : file_(file), file_name_(file_name), environment_(environment), mistakes_(mistakes) {}

void SettingSources::Take(Setting& s, const toml::node& node) {
  s.place = PlaceOf(node, file_name_);
  if (!s.is_list && node.is_string()) {
    s.value = {std::string(node.as_string()->get())};
    return;
  }
  if (!s.is_list || !node.is_array()) {
    return mistakes_.Add(s.place, s.name,
                         s.is_list ? "a list of texts is expected" : "a text is expected");
  }
  std::vector<std::string> value;
  for (const auto& item : *node.as_array()) {
    if (!item.is_string()) return mistakes_.Add(s.place, s.name, "a list of texts is expected");
    value.push_back(std::string(item.as_string()->get()));
  }
  s.value = std::move(value);
  if (s.value.empty()) mistakes_.Add(s.place, s.name, "is empty");
}

void SettingSources::Fill(Setting& s) {
  known_.insert(s.name);
  if (!s.flag.empty()) {
    s.value = s.flag;
    s.place = "flag";
  } else if (const char* text = s.variable ? environment_(s.variable) : nullptr; text != nullptr) {
    s.place = s.variable;
    if (s.is_list) {
      for (std::string_view part : Split(text, ":")) s.value.emplace_back(part);
    } else {
      s.value = {text};
    }
    if (s.value.empty()) mistakes_.Add(s.place, s.name, "is empty");
  } else if (const auto node = file_.at_path(s.name)) {
    Take(s, *node.node());
  }
  if (std::count(s.value.begin(), s.value.end(), "") == 0) return;
  mistakes_.Add(s.place, s.name, "is empty");
  s.value.clear();
}

void SettingSources::RefuseUnknown(std::string_view free) {
  const auto refuse = [&](const toml::node& node, std::string_view name) {
    mistakes_.Add(PlaceOf(node, file_name_), name, "unknown setting");
  };
  for (const auto& [table, node] : file_) {
    if (!node.is_table()) {
      refuse(node, table.str());
      continue;
    }
    if (table.str() == free) continue;
    for (const auto& [key, value] : *node.as_table()) {
      const std::string name = Cat(table.str(), ".", key.str());
      if (!known_.contains(name)) refuse(value, name);
    }
  }
}

}  // namespace parkade::daemon
