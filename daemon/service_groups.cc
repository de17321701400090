// The calls about groups, and selectors and policies as requests have them, groups and all.
#include "daemon/service.h"
#include "daemon/service_tcp.h"
#include "daemon/service_text.h"
#include "daemon/status.h"
#include "daemon/status_grpc.h"
#include "daemon/tags.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

absl::Status BadPolicy(std::string_view what) {
  return Fail(absl::StatusCode::kInvalidArgument, "BAD_POLICY", what);
}

absl::StatusOr<wire::Policy> ReadPolicy(int policy) {
  switch (policy) {
    case v1::POLICY_HOST:
      return wire::Policy::kHost;
    case v1::POLICY_DISK:
      return wire::Policy::kDisk;
    case v1::POLICY_AUTO:
      return wire::Policy::kAuto;
    case v1::POLICY_DISCARD:
      return wire::Policy::kDiscard;
    case v1::POLICY_KEEP:
      return wire::Policy::kKeep;
    default:
      return BadPolicy(Cat("unknown policy ", policy));
  }
}

Selector ReadFields(const v1::Selector& in) {
  Selector out;
  out.pids.assign(in.pids().begin(), in.pids().end());
  out.job = in.job();
  out.role = in.role();
  out.cell = in.cell();
  out.ranks.assign(in.ranks().begin(), in.ranks().end());
  out.gpu_uuids.assign(in.gpu_uuids().begin(), in.gpu_uuids().end());
  out.all = in.all();
  return out;
}

}  // namespace

v1::Policy WritePolicy(wire::Policy policy) {
  switch (policy) {
    case wire::Policy::kHost:
      return v1::POLICY_HOST;
    case wire::Policy::kDisk:
      return v1::POLICY_DISK;
    case wire::Policy::kAuto:
      return v1::POLICY_AUTO;
    case wire::Policy::kDiscard:
      return v1::POLICY_DISCARD;
    case wire::Policy::kKeep:
      return v1::POLICY_KEEP;
  }
  return v1::POLICY_UNSPECIFIED;
}

absl::StatusOr<Selector> Read(const v1::Selector& in, const Asker& asker) {
  Selector out = ReadFields(in);
  if (in.group().empty()) return out;
  auto group = asker.groups.Find(asker.caller, in.group());
  if (!group.ok()) return group.status();
  out.also.push_back(std::move(group->selector));
  return out;
}

absl::StatusOr<Policies> ReadPolicies(v1::Policy all, const TagPolicies& by_tag) {
  Policies out;
  if (all != v1::POLICY_UNSPECIFIED) {
    const auto policy = ReadPolicy(all);
    if (!policy.ok()) return policy.status();
    out.all = *policy;
  }
  for (const auto& [tag, value] : by_tag) {
    const auto policy = ReadPolicy(value);
    if (!policy.ok()) return policy.status();
    if (!out.by_tag.emplace(TagName(tag), *policy).second) {
      return BadPolicy(Cat("the tag ", TagName(tag), " has two policies"));
    }
  }
  return out;
}

absl::Status AddGroups(const v1::Selector& in, const Asker& asker, Policies& policies) {
  if (in.group().empty()) return absl::OkStatus();
  const auto group = asker.groups.Find(asker.caller, in.group());
  if (!group.ok()) return group.status();
  if (!policies.all) policies.all = group->policies.all;
  for (const auto& [tag, policy] : group->policies.by_tag) policies.by_tag.emplace(tag, policy);
  return absl::OkStatus();
}

absl::StatusOr<Group> Read(const v1::Group& in, const std::string& owner) {
  if (!in.selector().group().empty()) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_SELECTOR",
                "a group selects processes, not another group");
  }
  auto policies = ReadPolicies(in.policy(), in.tag_policies());
  if (!policies.ok()) return policies.status();
  return Group{in.name(), ReadFields(in.selector()), std::move(*policies), owner};
}

void Write(const Group& in, v1::Group* out) {
  out->set_name(in.name);
  auto* selector = out->mutable_selector();
  const Selector& from = in.selector;
  selector->mutable_pids()->Add(from.pids.begin(), from.pids.end());
  selector->set_job(from.job);
  selector->set_role(from.role);
  selector->set_cell(from.cell);
  selector->mutable_ranks()->Add(from.ranks.begin(), from.ranks.end());
  for (const std::string& uuid : from.gpu_uuids) selector->add_gpu_uuids(uuid);
  selector->set_all(from.all);
  if (in.policies.all) out->set_policy(WritePolicy(*in.policies.all));
  for (const auto& [tag, policy] : in.policies.by_tag) {
    (*out->mutable_tag_policies())[tag] = WritePolicy(policy);
  }
  out->set_configured(in.owner.empty());
}

grpc::Status ControlService::DefineGroup(grpc::ServerContext* context,
                                         const v1::DefineGroupRequest* request,
                                         v1::Group* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const auto group = Read(request->group(), caller->Name());
  if (!group.ok()) return ToGrpc(group.status());
  if (auto s = to_.groups.Define(*group); !s.ok()) return ToGrpc(s);
  Write(*group, response);
  return grpc::Status::OK;
}

grpc::Status ControlService::RemoveGroup(grpc::ServerContext* context,
                                         const v1::RemoveGroupRequest* request,
                                         v1::RemoveGroupResponse*) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  return ToGrpc(to_.groups.Remove(*caller, request->name()));
}

grpc::Status ControlService::ListGroups(grpc::ServerContext* context, const v1::ListGroupsRequest*,
                                        v1::ListGroupsResponse* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  for (const Group& group : to_.groups.List(*caller)) Write(group, response->add_groups());
  return grpc::Status::OK;
}

}  // namespace parkade::daemon
