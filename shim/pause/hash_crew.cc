// Hands out blocks to threads, and to whoever waits.
#include "shim/pause/hash_crew.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "shim/pause/host_slice.h"

namespace parkade::shim {
namespace {

// A thread hashes some 5 GB/s from memory that the GPU fills at the same time, and a link brings
// 55: with 8 a pause ran at 76 % of the link, with 14 at 96 % (docs/benchmarks.md).
constexpr size_t kMostThreads = 14;
constexpr size_t kCoresForOthers = 2;

}  // namespace

HashCrew::HashCrew(Bytes bytes)
    : wanted_(std::min({std::max<size_t>(UsableCores(), kCoresForOthers + 1) - kCoresForOthers,
                        kMostThreads, HashBlocksIn(bytes)})) {}

void HashCrew::StartThreads() {
  MutexLock lock(start_mu_);
  for (size_t i = threads_.size(); i < wanted_; ++i) {
    auto thread = Thread::Start("parkade-hash", Run, this);
    if (!thread.ok()) break;
    threads_.push_back(std::move(*thread));
  }
}

HashCrew::~HashCrew() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    work_or_stop_.NotifyAll();
  }
  threads_.clear();
}

void HashCrew::Run(void* arg) {
  HashCrew& self = *static_cast<HashCrew*>(arg);
  // Waiting for work needs no end: the destructor wakes it. The bound only guards a lost wake-up.
  constexpr uint64_t kIdleMs = 10'000;
  MutexLock lock(self.mu_);
  for (;;) {
    if (self.WorkOnce()) continue;
    if (self.stop_) return;
    self.work_or_stop_.WaitUntil(self.mu_, Deadline::InMs(kIdleMs));
  }
}

bool HashCrew::WorkOnce() {
  if (waiting_.empty()) return false;
  Item& item = *waiting_.front();
  const size_t block = item.unclaimed++;
  if (item.unclaimed == HashBlocksIn(item.work.bytes)) waiting_.pop_front();
  const HashWork work = item.work;
  mu_.Unlock();

  const Bytes at = block * kHashBlock;
  const Bytes bytes = std::min(kHashBlock, work.bytes - at);
  const char* memory = work.from + at;
  if (work.to != nullptr) {
    memcpy(work.to + at, memory, bytes);
    memory = work.to + at;
  }
  const Digest digest = HashBlock(memory, bytes);
  const bool wrong = work.verify != nullptr && digest != work.verify[block];
  if (work.compute != nullptr) work.compute[block] = digest;

  mu_.Lock();
  if (wrong) item.wrong = std::min(item.wrong.value_or(block), block);
  if (--item.unfinished != 0) return true;
  HashLane& lane = *item.lane;
  const auto place = std::find_if(lane.items_.begin(), lane.items_.end(),
                                  [&item](const Item& each) { return &each == &item; });
  lane.ended_.splice(lane.ended_.end(), lane.items_, place);
  ended_.NotifyAll();
  return true;
}

void HashLane::Start(const HashWork& work) {
  crew_.StartThreads();
  ++in_flight_;
  const size_t blocks = HashBlocksIn(work.bytes);
  MutexLock lock(crew_.mu_);
  items_.push_back({work, 0, blocks, std::nullopt, this});
  crew_.waiting_.push_back(&items_.back());
  crew_.work_or_stop_.NotifyAll();
}

std::optional<HashLane::Done> HashLane::Next(Patience patience) {
  if (idle()) return std::nullopt;
  MutexLock lock(crew_.mu_);
  while (ended_.empty()) {
    if (patience == Patience::kLook) return std::nullopt;
    if (crew_.WorkOnce()) continue;
    // The blocks that are left are being hashed, which takes a moment each.
    constexpr uint64_t kLostWakeUpMs = 1000;
    crew_.ended_.WaitUntil(crew_.mu_, Deadline::InMs(kLostWakeUpMs));
  }
  const Done done{ended_.front().work.tag, ended_.front().wrong};
  ended_.pop_front();
  --in_flight_;
  return done;
}

void HashLane::Drain() {
  {
    MutexLock lock(crew_.mu_);
    std::erase_if(crew_.waiting_,
                  [this](const HashCrew::Item* item) { return item->lane == this; });
    for (auto item = items_.begin(); item != items_.end();) {
      const auto next = std::next(item);
      item->unfinished -= HashBlocksIn(item->work.bytes) - item->unclaimed;
      if (item->unfinished == 0) ended_.splice(ended_.end(), items_, item);
      item = next;
    }
  }
  while (Next(Patience::kWait)) {
  }
}

}  // namespace parkade::shim
