// Reads both sides' ledgers and sends Room.
#include "daemon/pace.h"

#include <algorithm>

#include "daemon/selector.h"

namespace parkade::daemon {
namespace {

// More than any GPU has: nothing is held back any more.
constexpr Bytes kAll = Bytes(1) << 56;

// HBM that the heaps of one side hold at this moment, by GPU.
GpuAccount::ByGpu HeldBy(std::span<const Member> members) {
  GpuAccount::ByGpu held;
  for (const Member& member : members) {
    const ProcessView view = member.process->View();
    if (!view.ledger) continue;
    for (size_t i = 0; i < wire::kMaxDevices; ++i) {
      const wire::LedgerDevice& device = view.ledger->devices[i];
      if (device.used == 0) continue;
      // A claim like any other: one that makes no sense has released nothing.
      const Bytes now = device.resident_bytes + view.ledger->shifted_bytes[i];
      held[GpuUuid(device.uuid)] += now < kAll ? now : std::min(device.resident_bytes, kAll);
    }
  }
  return held;
}

}  // namespace

Pace::Pace(std::span<const Member> out, std::span<const Member> in, Overlap overlap,
           const GpuAccount::ByGpu& free)
    : out_(out), in_(in), overlap_(overlap) {
  for (const auto& [uuid, bytes] : HeldBy(out_)) gpus_[uuid].out_at_start = bytes;
  for (const auto& [uuid, bytes] : HeldBy(in_)) gpus_[uuid].in_at_start = bytes;
  for (const Member& member : in_) {
    const GpuAccount::ByGpu needed = Lacking({member});
    const ProcessView view = member.process->View();
    if (member.already || !view.ledger) continue;
    for (size_t i = 0; i < wire::kMaxDevices; ++i) {
      const wire::LedgerDevice& device = view.ledger->devices[i];
      if (device.used == 0) continue;
      const std::string uuid = GpuUuid(device.uuid);
      const auto at = needed.find(uuid);
      const Bytes bytes = at == needed.end() ? 0 : at->second;
      shares_.push_back({&member, int(i), uuid, bytes});
      gpus_[uuid].needed += bytes;
    }
  }
  for (auto& [uuid, gpu] : gpus_) {
    if (const auto at = free.find(uuid); at != free.end()) gpu.free = at->second;
    if (overlap_ == Overlap::kGpu) continue;
    gpu.bound = std::max(gpu.out_at_start, gpu.in_at_start + gpu.needed) + kMargin;
  }
}

void Pace::Look(bool all_out) {
  const GpuAccount::ByGpu out_now = HeldBy(out_);
  GpuAccount::ByGpu in_now = HeldBy(in_);
  GpuAccount::ByGpu room;
  for (auto& [uuid, gpu] : gpus_) {
    const auto at = out_now.find(uuid);
    const Bytes out = at == out_now.end() ? 0 : at->second;
    gpu.peak = std::max(gpu.peak, out + in_now[uuid]);
    room[uuid] = Room(gpu, out, all_out);
  }
  // In order, so that a handle always fits somewhere: shares in proportion might all be too small.
  for (Share& share : shares_) {
    Bytes& left = room[share.uuid];
    const Bytes mine = all_out ? kAll : std::min(left, share.needed);
    left -= std::min(left, mine);
    if (mine <= share.told) continue;
    share.told = mine;
    auto message = wire::Make<wire::Room>();
    message.device = share.device;
    message.bytes = mine;
    share.member->process->Tell(message);
  }
}

Bytes Pace::Room(const Gpu& gpu, Bytes out_now, bool all_out) const {
  if (all_out) return kAll;
  if (overlap_ == Overlap::kOrdered) return 0;
  const Bytes released = Less(gpu.out_at_start, out_now);
  // Without the driver's word only what is released is known to be there.
  const Bytes free = gpu.free.value_or(0) + released;
  if (gpu.bound == 0) return free;
  return std::min(free, Less(gpu.bound, out_now + gpu.in_at_start));
}

Bytes Pace::PeakOn(const std::string& uuid) const {
  const auto at = gpus_.find(uuid);
  return at == gpus_.end() ? 0 : at->second.peak;
}

Bytes Pace::AllowedOn(const std::string& uuid) const {
  const auto at = gpus_.find(uuid);
  return at == gpus_.end() ? 0 : at->second.bound;
}

}  // namespace parkade::daemon
