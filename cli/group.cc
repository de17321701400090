// `parkade group`: names processes and what a pause does with them, once for many requests.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/read.h"
#include "cli/selector.h"
#include "cli/table.h"
#include "cli/tag_policies.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

struct GroupOptions {
  std::string name;
  bool remove = false;
  SelectorOptions selector;
  std::string policy;
  std::vector<std::string> tag_policies;

  bool defines() const { return !selector.empty() || !policy.empty() || !tag_policies.empty(); }
};

std::string SelectorText(const v1::Selector& s) {
  std::vector<std::string> parts;
  const auto add = [&parts](const char* name, const std::string& value) {
    if (!value.empty()) parts.push_back(absl::StrCat(name, "=", Printable(value)));
  };
  add("pids", absl::StrJoin(s.pids(), ","));
  add("job", s.job());
  add("role", s.role());
  add("cell", s.cell());
  add("ranks", absl::StrJoin(s.ranks(), ","));
  add("gpus", absl::StrJoin(s.gpu_uuids(), ","));
  if (s.all()) parts.push_back("all");
  return absl::StrJoin(parts, " ");
}

std::string PoliciesText(const v1::Group& group) {
  std::map<std::string, std::string> tags;
  for (const auto& [tag, policy] : group.tag_policies()) tags[Printable(tag)] = PolicyName(policy);
  std::string text = group.policy() == v1::POLICY_UNSPECIFIED ? "" : PolicyName(group.policy());
  for (const auto& [tag, policy] : tags) {
    absl::StrAppend(&text, text.empty() ? "" : " ", tag, "=", policy);
  }
  return text;
}

int List(const Context& context) {
  Client client(context.globals);
  const auto response = client.ListGroups();
  if (!response.ok()) return context.Fail("group", response.status());
  Terminal& terminal = context.terminal;
  if (context.json()) {
    terminal.out << GroupsJson(*response) << '\n';
    return kExitOk;
  }
  Table table;
  for (const char* name : {"GROUP", "FROM", "POLICY", "PROCESSES"}) table.AddColumn(name);
  for (const auto& group : response->groups()) {
    table.AddRow({group.name(), group.configured() ? "file" : "call", OrDash(PoliciesText(group)),
                  SelectorText(group.selector())});
  }
  table.Print(terminal.out, context.wide() ? 0 : terminal.out_columns, terminal.colour);
  return kExitOk;
}

int Define(const GroupOptions& options, const Context& context) {
  const std::string what = absl::StrCat("group ", options.name);
  v1::DefineGroupRequest request;
  v1::Group& group = *request.mutable_group();
  group.set_name(options.name);
  group.set_policy(ReadPolicy(options.policy));
  if (auto s = AddTagPolicies(options.tag_policies, *group.mutable_tag_policies()); !s.ok()) {
    return context.Fail(what, s);
  }
  Client client(context.globals);
  const auto selector = MakeSelector(options.selector, client);
  if (!selector.ok()) return context.Fail(what, selector.status());
  *group.mutable_selector() = *selector;
  const auto defined = client.DefineGroup(request);
  return defined.ok() ? kExitOk : context.Fail(what, defined.status());
}

int Group(const GroupOptions& options, const Context& context) {
  if (options.name.empty()) {
    if (!options.remove && !options.defines()) return List(context);
    return context.Fail("group", UsageError("which one: give its NAME"));
  }
  const std::string what = absl::StrCat("group ", options.name);
  if (options.remove == options.defines()) {
    return context.Fail(what, UsageError("say which processes it has, or --remove"));
  }
  if (!options.remove) return Define(options, context);
  Client client(context.globals);
  v1::RemoveGroupRequest request;
  request.set_name(options.name);
  const auto removed = client.RemoveGroup(request);
  return removed.ok() ? kExitOk : context.Fail(what, removed.status());
}

}  // namespace

void AddGroup(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "group", "Lists groups, or defines one: processes, and what a pause does with them");
  auto options = std::make_shared<GroupOptions>();
  verb->add_option("NAME", options->name, "Define or remove this one")->check(IsLabel(63));
  verb->add_flag("--remove", options->remove, "Forget it");
  AddLabelSelector(*verb, options->selector);
  AddPolicies(*verb, options->policy, options->tag_policies);
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Group(*options, context); };
  });
}

}  // namespace parkade::cli
