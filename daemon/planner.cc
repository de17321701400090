// Shares host memory out: first to those that must have it, then to those that may go to disk.
#include "daemon/planner.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "common/text.h"
#include "daemon/printable.h"
#include "daemon/status.h"
#include "daemon/tags.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using wire::Policy;

// Bytes are stored in whole blocks, so that direct I/O can take them as they are.
constexpr Bytes kBlock = 4096;
// No piece that is moved at once is larger: what is left of the host grant below it may go unused.
constexpr Bytes kLargestPiece = 512_MiB;

// As little as a request may ask for, and what the shim takes multiples of.
constexpr Bytes kLeastStage = 16_MiB;
constexpr Bytes kStageStep = 2_MiB;

std::vector<std::string> NamesOf(const Policies& policies) {
  std::vector<std::string> names;
  for (const auto& [tag, policy] : policies.Named(Policy::kHost)) names.push_back(tag);
  return names;
}

struct Tiers {
  Bytes host = 0, disk = 0, automatic = 0;
};

Tiers Sort(const Policies& policies, const Demand& demand) {
  Tiers tiers;
  Bytes counted = 0;
  for (const auto& [tag, bytes] : demand.by_tag) {
    counted += bytes;
    switch (policies.For(tag, demand.process_default)) {
      case Policy::kHost:
        tiers.host += bytes;
        break;
      case Policy::kDisk:
        tiers.disk += bytes;
        break;
      case Policy::kAuto:
        tiers.automatic += bytes;
        break;
      case Policy::kDiscard:
      case Policy::kKeep:
        break;
    }
  }
  // What the process knows beyond the table is of no known tag: every tier in use has room for it.
  const Bytes beyond = demand.exact > counted ? demand.exact - counted : 0;
  for (Bytes* tier : {&tiers.host, &tiers.disk, &tiers.automatic}) {
    if (*tier > 0) *tier += beyond;
  }
  if (counted == 0 && beyond > 0) {
    const Policy rest = policies.ForRest(demand.process_default);
    if (rest == Policy::kHost) tiers.host = beyond;
    if (rest == Policy::kDisk) tiers.disk = beyond;
    if (rest == Policy::kAuto) tiers.automatic = beyond;
  }
  return tiers;
}

// What is left to share out: of the node, and of each control group.
class Room {
 public:
  Room(Bytes node, std::span<const Demand> demands) : node_(node) {
    for (const Demand& demand : demands) {
      for (const MemoryGroup& group : demand.groups) {
        // Each process's look was at another moment.
        const auto [at, first] = groups_.emplace(group.path, group.free);
        if (!first) at->second = std::min(at->second, group.free);
      }
    }
  }

  Bytes For(const Demand& demand) const {
    Bytes left = node_;
    for (const MemoryGroup& group : demand.groups) left = std::min(left, groups_.at(group.path));
    return left;
  }
  // Of the groups alone: whoever takes more is killed, which no budget of the node's is a reason
  // for.
  Bytes InGroups(const Demand& demand) const {
    Bytes left = UINT64_MAX;
    for (const MemoryGroup& group : demand.groups) left = std::min(left, groups_.at(group.path));
    return left;
  }
  void TakeInGroups(const Demand& demand, Bytes bytes) {
    for (const MemoryGroup& group : demand.groups) {
      Bytes& left = groups_.at(group.path);
      left = Less(left, bytes);
    }
  }
  // Not more than For.
  void Take(const Demand& demand, Bytes bytes) {
    node_ -= bytes;
    for (const MemoryGroup& group : demand.groups) groups_.at(group.path) -= bytes;
  }

  // HOST_MEMORY when what the grants take is more than there is.
  absl::Status Check(std::span<const Demand> demands, std::span<const Grant> grants) const;

 private:
  Bytes node_;
  std::map<std::string, Bytes> groups_;
};

absl::Status Room::Check(std::span<const Demand> demands, std::span<const Grant> grants) const {
  Bytes needed = 0;
  std::map<std::string, Bytes> by_group;
  for (size_t i = 0; i < demands.size(); ++i) {
    needed += grants[i].new_host;
    for (const MemoryGroup& group : demands[i].groups) by_group[group.path] += grants[i].new_host;
  }
  for (const Demand& demand : demands) {
    for (const MemoryGroup& group : demand.groups) {
      const Bytes wanted = by_group[group.path], left = groups_.at(group.path);
      if (wanted <= left) continue;
      return Fail(absl::StatusCode::kResourceExhausted, "HOST_MEMORY",
                  Cat("the pause of process ", demand.pid, " needs ", InUnits(wanted),
                      " of host memory in the control group ", group.path, ", which has ",
                      InUnits(left), " free; policy disk or auto would do"),
                  {{"pid", std::to_string(demand.pid)},
                   {"cgroup", group.path},
                   {"needed_bytes", std::to_string(wanted)},
                   {"free_bytes", std::to_string(left)}});
    }
  }
  if (needed <= node_) return absl::OkStatus();
  return Fail(absl::StatusCode::kResourceExhausted, "HOST_MEMORY",
              Cat("the pause needs ", InUnits(needed), " of host memory, ", InUnits(node_),
                  " are free for it; policy disk or auto would do"),
              {{"needed_bytes", std::to_string(needed)}, {"free_bytes", std::to_string(node_)}});
}

// The least stage for whoever goes to disk and has none yet. Without it nothing moves, so it is not
// refused where it does not fit.
void GrantStage(const Demand& demand, Room& room, Grant& grant) {
  if (grant.disk == 0 || demand.stage == 0 || grant.stage != 0) return;
  grant.stage = std::min(kLeastStage, demand.stage);
  room.TakeInGroups(demand, grant.stage);
}

// UNKNOWN_TAG for a tag that none of the processes has.
absl::Status CheckKnownIn(const Policies& policies, std::span<const Demand> demands) {
  if (policies.allow_unknown) return absl::OkStatus();
  std::set<std::string> known;
  for (const Demand& demand : demands) {
    for (const auto& [tag, bytes] : demand.by_tag) known.insert(tag);
  }
  return CheckKnown(NamesOf(policies), known);
}

}  // namespace

Policy Policies::For(const std::string& tag, Policy process_default) const {
  if (const auto at = by_tag.find(tag); at != by_tag.end()) return Told(at->second);
  const bool wanted = std::find(only.begin(), only.end(), tag) != only.end();
  return wanted ? Told(all.value_or(process_default)) : ForRest(process_default);
}

Policy Policies::ForRest(Policy process_default) const {
  return only.empty() ? Told(all.value_or(process_default)) : Policy::kKeep;
}

Policy Policies::Told(Policy policy) const {
  return write_behind && policy == Policy::kDisk ? Policy::kAuto : policy;
}

std::map<std::string, Policy> Policies::Named(Policy process_default) const {
  std::map<std::string, Policy> named;
  for (const auto& [tag, policy] : by_tag) named.emplace(tag, Told(policy));
  for (const std::string& tag : only) named.emplace(tag, For(tag, process_default));
  return named;
}

absl::Status CheckPolicies(const Policies& policies) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  if (policies.all == Policy::kDiscard && policies.only.empty()) {
    return Fail(kInvalid, "BAD_POLICY",
                "discard loses bytes: it must name its tags, never stand for all of them");
  }
  return CheckNames(NamesOf(policies));
}

Demand DemandOf(int pid, Policy process_default, const wire::LedgerView& ledger) {
  Demand demand;
  demand.pid = pid;
  demand.process_default = process_default;
  for (const wire::LedgerRecord& r : ledger.records) {
    // Held memory stays unless its importers let go of it, as those of the same group do.
    if (wire::AllocationClass(r.allocation_class) == wire::AllocationClass::kForeign) continue;
    Bytes& sum = demand.by_tag[std::string(ReadText(r.tag))];
    if (wire::Place(r.place) != wire::Place::kGpu) continue;
    // A hostile ledger may claim any size; 2^56 is beyond every address.
    const Bytes bytes = RoundUp(std::min<Bytes>(r.bytes, Bytes(1) << 56), kBlock);
    sum = std::min<Bytes>(sum + bytes, Bytes(1) << 60);
    demand.largest = std::max(demand.largest, bytes);
  }
  demand.reusable = Less(ledger.header.host_pool_bytes, ledger.header.host_backup_bytes);
  return demand;
}

std::vector<TagShare> SharesOf(const Policies& policies, const Demand& demand, const Grant& grant) {
  std::vector<TagShare> shares;
  Bytes host_left = Less(grant.host, Sort(policies, demand).host);
  for (const auto& [tag, bytes] : demand.by_tag) {
    TagShare& share = shares.emplace_back();
    share.tag = tag;
    share.policy = policies.For(tag, demand.process_default);
    switch (share.policy) {
      case Policy::kHost:
        share.host = bytes;
        break;
      case Policy::kDisk:
        share.disk = bytes;
        break;
      case Policy::kAuto:
        share.host = std::min(bytes, host_left);
        share.disk = bytes - share.host;
        host_left -= share.host;
        break;
      case Policy::kDiscard:
        share.discarded = bytes;
        break;
      case Policy::kKeep:
        share.kept = bytes;
        break;
    }
  }
  return shares;
}

absl::StatusOr<std::vector<Grant>> Plan(const Policies& policies, std::span<const Demand> demands,
                                        Bytes host_free) {
  if (auto s = CheckKnownIn(policies, demands); !s.ok()) return s;
  std::vector<Grant> grants(demands.size());
  std::vector<Tiers> tiers;
  Room room(host_free, demands);
  for (size_t i = 0; i < demands.size(); ++i) {
    const Tiers& t = tiers.emplace_back(Sort(policies, demands[i]));
    grants[i] = {t.host, Less(t.host, demands[i].reusable), t.disk};
  }
  if (auto s = room.Check(demands, grants); !s.ok()) return s;
  for (size_t i = 0; i < demands.size(); ++i) room.Take(demands[i], grants[i].new_host);
  for (size_t i = 0; i < demands.size(); ++i) GrantStage(demands[i], room, grants[i]);
  for (size_t i = 0; i < demands.size(); ++i) {
    const Bytes wanted = tiers[i].automatic;
    if (wanted == 0) continue;
    const Demand& demand = demands[i];
    Grant& grant = grants[i];
    // What it has pinned already costs nothing.
    const Bytes pinned = Less(demand.reusable, grant.host);
    Bytes host = std::min(wanted, pinned + room.For(demand));
    if (host < wanted && demand.stage != 0 && grant.stage == 0) {
      const Bytes beside = Less(room.InGroups(demand), kLeastStage);
      host = std::min(host, pinned + std::min(room.For(demand), beside));
    }
    const Bytes new_host = Less(host, pinned);
    grant.host += host;
    grant.new_host += new_host;
    room.Take(demand, new_host);
    grant.spills = host < wanted;
    if (policies.write_behind) {
      grant.disk += wanted;
    } else if (grant.spills && !demand.stays) {
      const Bytes unused = std::min({host, demand.largest, kLargestPiece});
      grant.disk += wanted - host + unused;
    }
    GrantStage(demand, room, grant);
  }
  // What is left makes the stages as large as they can be.
  for (size_t i = 0; i < demands.size(); ++i) {
    Grant& grant = grants[i];
    if (grant.stage == 0) continue;
    if (demands[i].groups.empty()) {
      grant.stage = demands[i].stage;
      continue;
    }
    const Bytes useful = std::min(demands[i].stage, RoundUp(grant.disk, kStageStep));
    const Bytes more = std::min(Less(useful, grant.stage), room.InGroups(demands[i]));
    room.TakeInGroups(demands[i], more);
    grant.stage += more / kStageStep * kStageStep;
  }
  return grants;
}

}  // namespace parkade::daemon
