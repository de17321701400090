// Reads the list, by the cluster's own command lines where it is not a file.
#include "cli/nodes.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/child.h"
#include "cli/error.h"
#include "cli/exit_codes.h"

namespace parkade::cli {
namespace {

using Names = std::vector<std::string>;

absl::StatusOr<std::string> Said(const std::string& program, const Names& arguments) {
  Child child = RunChild(program, arguments);
  if (child.exit_code == kExitOk) return std::move(child.out);
  const absl::string_view why = absl::StripAsciiWhitespace(child.err);
  return absl::UnavailableError(
      absl::StrCat(program, " failed", why.empty() ? "" : ": ", why.substr(0, why.find('\n'))));
}

absl::StatusOr<Names> InFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return UsageError(absl::StrCat("the list of nodes ", path, " cannot be read"));
  Names names;
  for (std::string line; std::getline(file, line);) {
    const std::string_view text = std::string_view(line).substr(0, line.find('#'));
    names.emplace_back(std::string(absl::StripAsciiWhitespace(std::string(text))));
  }
  return names;
}

absl::StatusOr<Names> OfSlurm(const std::string& job) {
  const auto lists = Said("squeue", {"--noheader", "--format=%N", "--jobs", job});
  if (!lists.ok()) return lists.status();
  Names names;
  for (const auto list : absl::StrSplit(*lists, '\n', absl::SkipWhitespace())) {
    const auto hosts =
        Said("scontrol", {"show", "hostnames", std::string(absl::StripAsciiWhitespace(list))});
    if (!hosts.ok()) return hosts.status();
    for (const auto host : absl::StrSplit(*hosts, '\n', absl::SkipWhitespace())) {
      names.emplace_back(absl::StripAsciiWhitespace(host));
    }
  }
  return names;
}

absl::StatusOr<Names> OfKubernetes(const std::string& selector) {
  const auto pods = Said("kubectl", {"get", "pods", "--selector", selector, "--output", "json"});
  if (!pods.ok()) return pods.status();
  const auto answer = nlohmann::json::parse(*pods, nullptr, false);
  if (!answer.is_object() || !answer.contains("items") || !answer["items"].is_array()) {
    return absl::UnavailableError("kubectl gave no list of pods");
  }
  Names names;
  for (const auto& pod : answer["items"]) {
    const auto address = nlohmann::json::json_pointer("/status/podIP");
    if (pod.contains(address) && pod[address].is_string()) names.push_back(pod[address]);
  }
  return names;
}

absl::StatusOr<Names> Found(const std::string& where) {
  absl::string_view rest = where;
  if (absl::ConsumePrefix(&rest, "slurm:")) return OfSlurm(std::string(rest));
  if (absl::ConsumePrefix(&rest, "k8s:")) return OfKubernetes(std::string(rest));
  return InFile(where);
}

}  // namespace

absl::StatusOr<Names> NodesOf(const std::string& where, int port) {
  const auto found = Found(where);
  if (!found.ok()) return found.status();
  Names nodes;
  for (const std::string& name : *found) {
    if (name.empty()) continue;
    const bool has_port = absl::StrContains(name, ':');
    if (!has_port && port == 0) {
      return UsageError(absl::StrCat(name, " in ", where, " has no port: --port says that of all"));
    }
    std::string node = has_port ? name : absl::StrCat(name, ":", port);
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  if (nodes.empty()) return UsageError(absl::StrCat(where, " names no node"));
  return nodes;
}

}  // namespace parkade::cli
