// The device memory of slots: how much it is, how a budget is kept, and making it.
//
// It is the driver's own, not the heap's: a pause leaves it, since nothing of it is the
// application's.
#pragma once

#include <vector>

#include "shim/stream/stream_tools.h"

namespace parkade::shim {

// What a slot holds: whole buckets, or what a store is filled from, the first segment alone.
enum class SlotKind : uint8_t { kWhole, kFirstSegment };

// Bytes of one slot for buckets of `numel` elements, in whole and rounded.
Bytes SlotBytes(const std::vector<store::Segment>& segments, uint64_t numel, SlotKind kind);
// Distance between two views in a slot.
Bytes ViewBytes(uint64_t numel);

// How many slots of which size keep a budget of device memory.
struct SlotPlan {
  uint32_t slots = 0;
  uint64_t bucket_numel = 0;  // 0: as the layout chooses
};
// The least that a store may have beside its slots, and always counts.
constexpr Bytes kFixedDevice = 64_MiB;
// `slots` 0: three, or as few as leave buckets large enough. `bucket_numel` 0: what suits
// `numel` elements in all, or as much as fits. RESOURCE_EXHAUSTED DEVICE_BUDGET names the smallest
// budget that does.
Result<SlotPlan> PlanSlots(const std::vector<store::Segment>& segments, uint64_t numel,
                           uint32_t slots, uint64_t bucket_numel, Bytes budget);

// Makes `count` slots for buckets of `numel` elements in tools.slots, which is empty, under the
// current context; on an error none. GPU_MEMORY.
Result<void> MakeSlots(StreamTools& tools, uint32_t count, uint64_t numel, SlotKind kind);
// Frees them. Nothing may be using them.
void FreeSlots(StreamTools& tools);

}  // namespace parkade::shim
