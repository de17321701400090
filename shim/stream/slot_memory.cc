// Counts, makes and frees slots.
#include "shim/stream/slot_memory.h"

#include <algorithm>

#include "common/store/ties.h"
#include "shim/cuda/cuda_error.h"
#include "shim/kernels/store_kernels.h"

namespace parkade::shim {
namespace {

constexpr Bytes kAlign = 4096;
// Below this a request to the disk is too small to be worth a bucket.
constexpr uint64_t kLeastBucket = 64 << 10;

// Where the parts of a slot begin.
struct SlotMap {
  Bytes ties = 0, views = 0, findings = 0, bytes = 0;
};

SlotMap MapOf(const std::vector<store::Segment>& segments, uint64_t numel, SlotKind kind) {
  const size_t count = kind == SlotKind::kWhole ? segments.size() : 1;
  SlotMap map;
  size_t views = 0;
  bool lo16 = false;
  for (size_t i = 0; i < count; ++i) {
    map.ties += RoundUp(store::EncodedBytes(segments[i], numel), kAlign);
    views += segments[i].encoding == store::Encoding::kRaw ? 0 : 1;
    lo16 = lo16 || segments[i].encoding == store::Encoding::kLo16;
  }
  map.views = map.ties + (lo16 ? RoundUp(store::TieBitsBytes(numel), kAlign) : 0);
  map.findings = map.views + count * ViewBytes(numel);
  if (views == 0) map.findings = map.views;
  map.bytes = map.findings + kAlign;
  return map;
}

}  // namespace

Bytes ViewBytes(uint64_t numel) { return RoundUp(numel * sizeof(float), kAlign); }

Bytes SlotBytes(const std::vector<store::Segment>& segments, uint64_t numel, SlotKind kind) {
  return MapOf(segments, numel, kind).bytes;
}

Result<SlotPlan> PlanSlots(const std::vector<store::Segment>& segments, uint64_t numel,
                           uint32_t slots, uint64_t bucket_numel, Bytes budget) {
  const uint64_t suits = std::clamp(numel / 32, store::kLeastAutoBucket, store::kMostBucket);
  const uint64_t want = RoundUp(bucket_numel != 0 ? bucket_numel : std::min(suits, numel), 32);
  const uint32_t most = slots != 0 ? slots : 3, fewest = slots != 0 ? slots : 1;
  const uint64_t least = bucket_numel != 0 ? want : std::min<uint64_t>(want, kLeastBucket);
  for (uint32_t count = most; count >= fewest; --count) {
    const auto fits = [&](uint64_t elements) {
      return kFixedDevice + count * SlotBytes(segments, elements, SlotKind::kWhole) <= budget;
    };
    // With fewer slots only where the buckets would be small.
    const uint64_t enough = count == fewest ? least : std::min(want, store::kLeastAutoBucket);
    if (!fits(std::max(least, enough))) continue;
    uint64_t low = std::max(least, enough) / 32, high = want / 32;
    while (low < high) {
      const uint64_t middle = (low + high + 1) / 2;
      if (fits(middle * 32)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return SlotPlan{count, low * 32};
  }
  const Bytes smallest = kFixedDevice + fewest * SlotBytes(segments, least, SlotKind::kWhole);
  return MakeError(Code::kResourceExhausted, "DEVICE_BUDGET",
                   "a device budget of %llu bytes is too small: the smallest that does is %llu",
                   (unsigned long long)budget, (unsigned long long)smallest);
}

Result<void> MakeSlots(StreamTools& tools, uint32_t count, uint64_t numel, SlotKind kind) {
  const Driver& driver = tools.driver;
  const SlotMap map = MapOf(tools.layout.segments(), numel, kind);
  for (uint32_t i = 0; i < count; ++i) {
    StreamSlot slot;
    CUresult result = driver.mem_alloc(&slot.base, map.bytes);
    if (result == CUDA_SUCCESS) {
      slot.ties = tools.layout.lo16() < 0 ? 0 : slot.base + map.ties;
      slot.views = slot.base + map.views;
      slot.findings = slot.base + map.findings;
      result = driver.event_create(&slot.ready, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
      if (result != CUDA_SUCCESS) slot.ready = nullptr;
    } else {
      slot.base = 0;
    }
    if (result == CUDA_SUCCESS) {
      result = driver.event_create(&slot.updated, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
      if (result != CUDA_SUCCESS) slot.updated = nullptr;
    }
    tools.slots.push_back(slot);
    if (result == CUDA_SUCCESS) continue;
    FreeSlots(tools);
    return CudaError(driver, result, "%u slots of %llu bytes for a store's buckets", count,
                     (unsigned long long)map.bytes);
  }
  return {};
}

void FreeSlots(StreamTools& tools) {
  for (const StreamSlot& slot : tools.slots) {
    if (slot.ready != nullptr) tools.driver.event_destroy(slot.ready);
    if (slot.updated != nullptr) tools.driver.event_destroy(slot.updated);
    if (slot.base != 0) tools.driver.mem_free(slot.base);
  }
  tools.slots.clear();
}

}  // namespace parkade::shim
