// EvictionPlan: what one Commit grants and asks for.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/fd.h"
#include "common/io/disk_setting.h"
#include "proto/wire.h"
#include "shim/heap/range.h"

namespace parkade::shim {

// Where Commit may put bytes; see wire::Commit. Descriptors stay open until the next Commit
// replaces them or a Resume has ended.
struct EvictionPlan {
  Bytes host_bytes = 0;
  Bytes disk_bytes = 0;
  Bytes chunk_bytes = 256_MiB;
  wire::Policy policy = wire::Policy::kHost;
  wire::Elision elision = wire::Elision::kHash;
  std::span<const wire::TagPolicy> tags;
  std::span<Fd> files;               // taken over by Commit once it has looked at them
  std::vector<FilePart> taken = {};  // of them: what is out there already, which Commit fills in
  DiskSetting disk;                  // how they are best used
  // A pause that the program asks for itself: what is to move, each range as its `saving` says.
  // Nobody has granted it host memory: what the host has left takes the place of host_bytes.
  std::optional<Wanted> own = {};
};

}  // namespace parkade::shim
