// Reads TAG=POLICY.
#include "cli/tag_policies.h"

#include "absl/strings/str_cat.h"
#include "cli/error.h"
#include "cli/read.h"
#include "proto/wire.h"

namespace parkade::cli {

void AddPolicies(CLI::App& verb, std::string& policy, std::vector<std::string>& tag_policies) {
  verb.add_option("--policy", policy,
                  "Where bytes go: host (default), disk, auto (host while there is room, then "
                  "disk) or keep (with --tag-policy)")
      ->check(CLI::IsMember({"host", "disk", "auto", "keep", "discard"}).description(""))
      ->type_name("POLICY");
  verb.add_option("--tag-policy", tag_policies,
                  "The same for one tag, also discard: its bytes are lost; again for more tags")
      ->allow_extra_args(false)
      ->type_name("TAG=POLICY");
}

absl::Status AddTagPolicies(const std::vector<std::string>& texts,
                            google::protobuf::Map<std::string, v1::Policy>& to) {
  if (texts.size() > wire::kMaxTags) {
    return UsageError(
        absl::StrCat("--tag-policy: ", texts.size(), " tags, ", wire::kMaxTags, " at most"));
  }
  constexpr size_t kLongestTag = sizeof(wire::TagPolicy::tag) - 1;
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    const std::string tag = text.substr(0, equals);
    const v1::Policy policy =
        equals == std::string::npos ? v1::POLICY_UNSPECIFIED : ReadPolicy(text.substr(equals + 1));
    if (tag.empty() || tag.size() > kLongestTag || policy == v1::POLICY_UNSPECIFIED) {
      return UsageError(absl::StrCat("--tag-policy \"", text,
                                     "\": TAG=POLICY is expected, with a tag of at most ",
                                     kLongestTag, " bytes and host, disk, auto, discard or keep"));
    }
    if (!to.insert({tag, policy}).second) {
      return UsageError(absl::StrCat("--tag-policy: the tag \"", tag, "\" is given twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace parkade::cli
