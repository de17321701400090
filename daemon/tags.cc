// Splits and gathers.
#include "daemon/tags.h"

#include <algorithm>
#include <iterator>

#include "daemon/printable.h"
#include "daemon/status.h"
#include "daemon/words.h"
#include "proto/wire.h"

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

absl::Status CheckNames(const std::vector<std::string>& tags) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  if (tags.size() > wire::kMaxTags) {
    return Fail(kInvalid, "BAD_POLICY",
                Cat(tags.size(), " tags are named, at most ", wire::kMaxTags, " can be"));
  }
  for (const std::string& tag : tags) {
    if (!tag.empty() && tag.size() < sizeof(wire::TagPolicy::tag)) continue;
    return Fail(kInvalid, "UNKNOWN_TAG", Cat("no tag is called \"", tag, "\""), {{"tag", tag}});
  }
  return absl::OkStatus();
}

absl::Status CheckKnown(const std::vector<std::string>& tags, const std::set<std::string>& known) {
  for (const std::string& tag : tags) {
    if (known.contains(tag)) continue;
    // A process may have any number of them, and bytes that are no text.
    const std::vector<std::string> some(
        known.begin(), std::next(known.begin(), long(std::min<size_t>(known.size(), 32))));
    const std::string list = Printable(Join(some, ","));
    return Fail(absl::StatusCode::kInvalidArgument, "UNKNOWN_TAG",
                Cat("no selected process has an allocation with tag \"", tag, "\"; they have ",
                    list.empty() ? "none" : list),
                {{"tag", tag}, {"known_tags", list}});
  }
  return absl::OkStatus();
}

}  // namespace parkade::daemon
