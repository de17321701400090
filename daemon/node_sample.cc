// Reads and adds up.
#include "daemon/node_sample.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "common/text.h"
#include "daemon/printable.h"
#include "daemon/proc_file.h"
#include "daemon/selector.h"
#include "daemon/wall_clock.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// Discarded bytes are nowhere.
bool HasPlace(wire::Place place) {
  return place == wire::Place::kGpu || place == wire::Place::kHost || place == wire::Place::kDisk;
}

Bytes ResidentBytes(int pid) {
  const std::string statm = ReadProcFile(Cat("/proc/", pid, "/statm"));
  const auto words = Split(statm, " \n");
  const auto pages = words.size() < 2 ? std::nullopt : ReadNumber<uint64_t>(words[1]);
  return pages.value_or(0) * uint64_t(sysconf(_SC_PAGESIZE));
}

}  // namespace

std::vector<TagBytes> PartsOf(const wire::LedgerView& ledger) {
  std::map<std::tuple<uint32_t, std::string, wire::Place>, Bytes> sums;
  std::map<uint32_t, Bytes> in_hbm, moving;
  std::map<std::pair<uint32_t, std::string>, Bytes> moving_by_tag;
  // A process has many allocations of few tags, mostly in runs: a run of them is one sum.
  const wire::LedgerRecord* run = nullptr;
  Bytes* sum = nullptr;
  for (const wire::LedgerRecord& r : ledger.records) {
    if (r.device < 0 || size_t(r.device) >= wire::kMaxDevices || !wire::IsPlace(r.place)) continue;
    // The shim counts foreign memory by device.
    if (wire::AllocationClass(r.allocation_class) == wire::AllocationClass::kForeign) continue;
    const auto place = wire::Place(r.place);
    const Bytes bytes = std::min(r.bytes, kMostClaimed);
    if (place == wire::Place::kMoving) moving[uint32_t(r.device)] += bytes;
    if (place == wire::Place::kGpu) in_hbm[uint32_t(r.device)] += bytes;
    if (run == nullptr || r.device != run->device || r.place != run->place ||
        memcmp(r.tag, run->tag, sizeof r.tag) != 0) {
      const std::string tag = Printable(ReadText(r.tag));
      run = &r;
      sum = place == wire::Place::kMoving ? &moving_by_tag[{uint32_t(r.device), tag}]
            : HasPlace(place)             ? &sums[{uint32_t(r.device), tag, place}]
                                          : nullptr;
    }
    if (sum != nullptr) *sum += bytes;
  }
  for (uint32_t i = 0; i < wire::kMaxDevices; ++i) {
    const wire::LedgerDevice& device = ledger.header.devices[i];
    if (device.used == 0) continue;
    const auto shifted = int64_t(ledger.header.shifted_bytes[i]);
    const auto claimed = int64_t(std::min(device.resident_bytes, kMostClaimed));
    const Bytes resident = Bytes(std::clamp<int64_t>(
        claimed + std::clamp<int64_t>(shifted, -claimed, int64_t(kMostClaimed)), 0, kMostClaimed));
    // Of what moves, as much is still or already there as the device has beside the rest; which of
    // it nobody says, so that each tag has its share.
    const Bytes there = std::min(resident - std::min(resident, in_hbm[i]), moving[i]);
    for (const auto& [key, bytes] : moving_by_tag) {
      if (key.first != i || there == 0) continue;
      const auto share = Bytes(double(bytes) * double(there) / double(moving[i]));
      sums[{i, key.second, wire::Place::kGpu}] += share;
      in_hbm[i] += share;
    }
    if (resident > in_hbm[i]) sums[{i, kSlackTag, wire::Place::kGpu}] = resident - in_hbm[i];
    if (device.foreign_bytes > 0) {
      sums[{i, kForeignTag, wire::Place::kGpu}] = std::min(device.foreign_bytes, kMostClaimed);
    }
  }
  std::vector<TagBytes> parts;
  for (const auto& [key, bytes] : sums) {
    const auto& [device, tag, place] = key;
    parts.push_back({GpuUuid(ledger.header.devices[device].uuid), tag, place, bytes});
  }
  return parts;
}

std::vector<TagBytes> KnownParts::Of(const Key& key, const wire::LedgerHeader& header,
                                     const Read& read) {
  const auto found = known_.find(key);
  const bool is_same =
      found != known_.end() && memcmp(&found->second.header, &header, sizeof header) == 0;
  if (is_same && found->second.is_settled) return found->second.parts;
  const auto ledger = read();
  if (!ledger.ok()) {
    known_.erase(key);
    return {};
  }
  return (known_[key] = {header, PartsOf(*ledger), is_same}).parts;
}

void KnownParts::Keep(const std::set<Key>& living) {
  std::erase_if(known_, [&](const auto& entry) { return !living.contains(entry.first); });
}

NodeSample ReadNode(const Registry& registry, const Gpus& gpus, const ScratchRules& rules,
                    KnownParts& known) {
  NodeSample sample;
  sample.time_ns = WallClockNs();
  sample.gpus = gpus.Read();
  sample.host = ReadHostMemory();
  sample.bases = ReportBases(rules);
  std::set<KnownParts::Key> living;
  for (const auto& process : registry.All()) {
    ProcessSample& one = sample.processes.emplace_back();
    one.view = process->View();
    if (one.view.ledger) {
      const KnownParts::Key key{process->pid(), one.view.identity.start_ticks};
      living.insert(key);
      one.parts = known.Of(key, *one.view.ledger, [&] { return process->Ledger(); });
    }
    if (one.view.identity.visible) one.resident_bytes = ResidentBytes(process->pid());
  }
  known.Keep(living);
  return sample;
}

NodeSample ReadNode(const Registry& registry, const Gpus& gpus, const ScratchRules& rules) {
  KnownParts none;
  return ReadNode(registry, gpus, rules, none);
}

}  // namespace parkade::daemon
