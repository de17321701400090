// Sorts ranges by policy and books them against the grants.
#include "shim/pause/eviction_order.h"

#include <algorithm>

#include "common/io/direct_files.h"
#include "common/text.h"

namespace parkade::shim {
namespace {

using wire::Policy;

Policy PolicyOf(Saving saving) {
  switch (saving) {
    case Saving::kPinned:
    case Saving::kPageable:
      return Policy::kHost;
    case Saving::kDisk:
      return Policy::kDisk;
    case Saving::kDiscard:
      return Policy::kDiscard;
    case Saving::kNone:
      break;
  }
  return Policy::kKeep;
}

Policy PolicyOf(const Range& range, const EvictionPlan& plan) {
  if (plan.own) return PolicyOf(range.saving);
  for (const wire::TagPolicy& tag : plan.tags) {
    if (ReadText(tag.tag) == ReadText(range.tag)) return Policy(tag.policy);
  }
  return plan.policy;
}

int Turn(Policy policy) {
  switch (policy) {
    case Policy::kHost:
      return 0;
    case Policy::kAuto:
      return 1;
    case Policy::kDisk:
      return 2;
    case Policy::kDiscard:
    case Policy::kKeep:
      break;
  }
  return 3;
}

Error Short(const char* reason, const char* what, Bytes needed, Bytes granted) {
  return MakeError(Code::kResourceExhausted, reason, "%s: %llu MiB needed, %llu MiB granted", what,
                   (unsigned long long)(needed + 1_MiB - 1) >> 20,
                   (unsigned long long)granted >> 20);
}

}  // namespace

Bytes LiveBytes(const Range& range) {
  Bytes sum = 0;
  for (const Extent& extent : range.extents) sum += extent.bytes;
  return sum;
}

Result<EvictionOrder> OrderEviction(std::span<Range* const> ranges, const EvictionPlan& plan,
                                    Bytes file_bytes) {
  Bytes disk_grant = std::min(plan.disk_bytes, file_bytes);
  for (const FilePart& part : plan.taken) disk_grant -= std::min(disk_grant, part.bytes);
  EvictionOrder order;
  Bytes auto_bytes = 0;
  for (Range* range : ranges) {
    const Policy policy = PolicyOf(*range, plan);
    const Bytes live = LiveBytes(*range);
    if (policy == Policy::kKeep) {
      order.kept.push_back(range);
      order.kept_bytes += live;
      continue;
    }
    order.moves.push_back({range, policy, live, policy == Policy::kHost ? live : 0});
    if (policy == Policy::kHost) order.host_bytes += live;
    if (policy == Policy::kDisk) order.disk_bytes += live;
    if (policy == Policy::kAuto) auto_bytes += live;
    if (policy == Policy::kDiscard) order.discarded_bytes += live;
  }
  if (plan.policy == Policy::kDiscard && order.discarded_bytes != 0) {
    return MakeError(Code::kInvalidArgument, "DISCARD_ALL",
                     "bytes are discarded only for tags that are named");
  }
  if (order.host_bytes > plan.host_bytes) {
    return Short("HOST_MEMORY", "host memory for backups", order.host_bytes, plan.host_bytes);
  }
  if (order.disk_bytes > disk_grant) {
    return Short("DISK_SPACE", "disk space for backups", order.disk_bytes, disk_grant);
  }
  const Bytes host_left = plan.host_bytes - order.host_bytes;
  if (auto_bytes > host_left + (disk_grant - order.disk_bytes)) {
    return Short("DISK_SPACE", "host memory and disk space for backups",
                 order.host_bytes + order.disk_bytes + auto_bytes, plan.host_bytes + disk_grant);
  }
  std::stable_sort(
      order.moves.begin(), order.moves.end(),
      [](const RangeMove& a, const RangeMove& b) { return Turn(a.policy) < Turn(b.policy); });
  Bytes budget = host_left / kDirectAlign * kDirectAlign;
  for (RangeMove& move : order.moves) {
    if (move.policy != Policy::kAuto) continue;
    move.host_bytes = std::min(move.live_bytes, budget);
    budget -= move.host_bytes;
    order.host_bytes += move.host_bytes;
    order.disk_bytes += move.live_bytes - move.host_bytes;
  }
  return order;
}

}  // namespace parkade::shim
