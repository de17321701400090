// Keeps the order, and chooses who leaves.
#include "daemon/turns.h"

#include <algorithm>
#include <cstddef>

namespace parkade::daemon {
namespace {

Bytes At(const ByGpu& bytes, const std::string& uuid) {
  const auto at = bytes.find(uuid);
  return at == bytes.end() ? 0 : at->second;
}

bool Fits(const ByGpu& needs, const ByGpu& room) {
  return std::all_of(needs.begin(), needs.end(),
                     [&](const auto& gpu) { return At(room, gpu.first) >= gpu.second; });
}

// Whether it holds anything on a GPU that is short.
bool Helps(const ByGpu& holds, const ByGpu& needs, const ByGpu& room) {
  return std::any_of(needs.begin(), needs.end(), [&](const auto& gpu) {
    return At(room, gpu.first) < gpu.second && At(holds, gpu.first) != 0;
  });
}

void Add(const ByGpu& bytes, ByGpu& sum) {
  for (const auto& [uuid, count] : bytes) sum[uuid] += count;
}

}  // namespace

void Turns::SetAsking(const std::set<std::string>& keys) {
  std::set<std::string> fresh = keys;
  order_.remove_if([&](const std::string& key) { return fresh.erase(key) == 0; });
  order_.insert(order_.end(), fresh.begin(), fresh.end());
  std::erase_if(put_off_, [&](const auto& entry) { return !keys.contains(entry.first); });
}

void Turns::PutOff(const std::string& key, uint64_t until_ns) {
  const auto at = std::find(order_.begin(), order_.end(), key);
  if (at == order_.end()) return;
  order_.splice(order_.end(), order_, at);
  put_off_[key] = until_ns;
}

uint64_t Turns::put_off_until_ns(const std::string& key) const {
  const auto at = put_off_.find(key);
  return at == put_off_.end() ? 0 : at->second;
}

void Turns::CameIn(const std::string& key, uint64_t now_ns, uint64_t cost_ns) {
  last_[key] = {now_ns, cost_ns};
}

uint64_t Turns::KeepsUntil(const std::string& key, uint64_t since_ns) const {
  const auto at = last_.find(key);
  if (at == last_.end() || at->second.since_ns < since_ns) return since_ns + quantum_ns_;
  return at->second.since_ns + std::max(quantum_ns_, at->second.cost_ns);
}

void Turns::Keep(const std::set<std::string>& keys) {
  std::erase_if(last_, [&](const auto& turn) { return !keys.contains(turn.first); });
}

Turns::Choice Turns::Choose(const ByGpu& needs, const ByGpu& free, std::vector<Holder> holders,
                            uint64_t now_ns) {
  if (Fits(needs, free)) return {Choice::What::kGo};
  std::stable_sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) {
    return a.keeps_until_ns < b.keeps_until_ns;
  });
  ByGpu room = free;
  std::vector<const Holder*> leave;
  for (const Holder& holder : holders) {
    if (Fits(needs, room)) break;
    if (!Helps(holder.holds, needs, room)) continue;
    leave.push_back(&holder);
    Add(holder.holds, room);
  }
  if (!Fits(needs, room)) return {Choice::What::kNever};
  // A small one that was taken first is not needed where a large one had to follow it. Whoever came
  // in last is looked at first.
  for (size_t i = leave.size(); i-- > 0;) {
    ByGpu without = free;
    for (const Holder* other : leave) {
      if (other != leave[i]) Add(other->holds, without);
    }
    if (Fits(needs, without)) leave.erase(leave.begin() + std::ptrdiff_t(i));
  }
  Choice choice{Choice::What::kGo};
  for (const Holder* holder : leave) {
    choice.leave.push_back(holder->key);
    choice.until_ns = std::max(choice.until_ns, holder->keeps_until_ns);
  }
  if (choice.until_ns > now_ns) choice.what = Choice::What::kWait;
  return choice;
}

}  // namespace parkade::daemon
