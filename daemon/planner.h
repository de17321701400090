// Planner: decides how many bytes of each process go to host memory and to disk. Pure: no I/O, no
// clock, no locks.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "daemon/host_memory.h"
#include "proto/ledger.h"
#include "proto/wire.h"

namespace parkade::daemon {

// What a pause asks of bytes.
struct Policies {
  std::optional<wire::Policy> all;  // empty: each process's own default
  std::map<std::string, wire::Policy> by_tag;
  std::vector<std::string> only = {};  // these tags alone, the others are kept; empty: every tag
  bool allow_unknown = false;          // a tag that no process has is no error
  // What is for the disk goes to host memory, as far as that has room, and from there on to disk.
  bool write_behind = false;

  // As the shim is to be told: what is written behind may be in either place.
  wire::Policy For(const std::string& tag, wire::Policy process_default) const;
  // Of tags that are not named.
  wire::Policy ForRest(wire::Policy process_default) const;
  // Of those that are.
  std::map<std::string, wire::Policy> Named(wire::Policy process_default) const;

 private:
  wire::Policy Told(wire::Policy policy) const;
};

// INVALID_ARGUMENT (BAD_POLICY) for discard without a tag and for more tags than a message holds;
// UNKNOWN_TAG for a tag that cannot exist.
absl::Status CheckPolicies(const Policies& policies);

// One process as the planner sees it.
struct Demand {
  int pid = 0;
  wire::Policy process_default = wire::Policy::kHost;
  std::map<std::string, Bytes> by_tag;  // bytes in HBM that may go, each rounded as it is stored
  Bytes largest = 0;                    // of these, the largest single allocation
  Bytes exact = 0;     // what the drained process says that it would evict in all; 0: not yet asked
  Bytes reusable = 0;  // pinned host memory it holds that carries no backup
  Bytes stage = 0;     // host memory that it would stage its way to disk with
  std::vector<MemoryGroup> groups;  // control groups that limit it; others may be in them too
  bool stays = false;               // what host memory has no room for under auto stays where it is
};
// From a ledger; `exact`, `stage` and `groups` are left empty.
Demand DemandOf(int pid, wire::Policy process_default, const wire::LedgerView& ledger);

struct Grant {
  Bytes host = 0;      // for backups in host memory
  Bytes new_host = 0;  // of it, memory that it does not hold yet
  Bytes disk = 0;      // under write-behind for what goes to the host first as well
  Bytes stage = 0;  // with a disk grant: as much of what was asked for as the groups have, 16 MiB
                    // at least
  bool spills = false;  // some of what may go to either goes to disk, for want of host memory
};

// What a grant makes of one tag.
struct TagShare {
  std::string tag;
  wire::Policy policy = wire::Policy::kHost;
  Bytes host = 0;
  Bytes disk = 0;
  Bytes discarded = 0;
  Bytes kept = 0;
};
// By tag. Under auto the tags take the host's share in their order; the shim's may be another.
std::vector<TagShare> SharesOf(const Policies& policies, const Demand& demand, const Grant& grant);

// Grants in the order of `demands`, out of `host_free` bytes of new host memory for all together,
// and for those of one control group out of what that has free. RESOURCE_EXHAUSTED (HOST_MEMORY,
// with needed_bytes and free_bytes) when policy host does not fit; INVALID_ARGUMENT (UNKNOWN_TAG)
// for a tag that none of the processes has, with those that they have as known_tags.
absl::StatusOr<std::vector<Grant>> Plan(const Policies& policies, std::span<const Demand> demands,
                                        Bytes host_free);

}  // namespace parkade::daemon
