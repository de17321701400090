// The options that say what a pause does with bytes, for the verbs that take them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/control.pb.h"

namespace parkade::cli {

// Adds --policy and --tag-policy.
void AddPolicies(CLI::App& verb, std::string& policy, std::vector<std::string>& tag_policies);

// Each text is TAG=POLICY. INVALID_ARGUMENT for what is none, for a tag that comes twice and for
// more tags than a request takes.
absl::Status AddTagPolicies(const std::vector<std::string>& texts,
                            google::protobuf::Map<std::string, v1::Policy>& to);

}  // namespace parkade::cli
