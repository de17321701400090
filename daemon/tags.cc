// Splits and gathers.
#include "daemon/tags.h"

#include <algorithm>

#include "daemon/words.h"

namespace parkade::daemon {

std::string TagName(std::string_view name) {
  return name == "weight" ? "weights" : std::string(name);
}

std::vector<std::string> ReadTags(const std::vector<std::string>& texts) {
  std::vector<std::string> tags;
  for (const std::string& text : texts) {
    for (const std::string_view part : Split(text, ", \t\n")) {
      std::string tag = TagName(part);
      if (std::find(tags.begin(), tags.end(), tag) == tags.end()) tags.push_back(std::move(tag));
    }
  }
  return tags;
}

}  // namespace parkade::daemon
