// Books in the order of the queue, and waits for the driver's figures.
#include "daemon/gpu_account.h"

#include <algorithm>
#include <utility>

#include "daemon/status.h"

namespace parkade::daemon {
namespace {

// What other programs free nobody announces: the driver is asked this often.
constexpr uint64_t kLookMs = 20;
constexpr uint64_t kRetryMs = 100;

Bytes At(const ByGpu& bytes, const std::string& uuid) {
  const auto at = bytes.find(uuid);
  return at == bytes.end() ? 0 : at->second;
}

void AddTo(ByGpu& sum, const ByGpu& bytes) {
  for (const auto& [uuid, count] : bytes) sum[uuid] += count;
}

bool Fits(const std::string& uuid, Bytes needed, const ByGpu& taken, const ByGpu& free) {
  const auto has = free.find(uuid);
  return needed == 0 || has == free.end() || has->second >= needed + At(taken, uuid);
}

bool Fits(const ByGpu& needed, const ByGpu& taken, const ByGpu& free) {
  return std::all_of(needed.begin(), needed.end(),
                     [&](const auto& gpu) { return Fits(gpu.first, gpu.second, taken, free); });
}

Deadline Sooner(Deadline by, uint64_t ms) {
  return by.LeftNs() < ms * 1'000'000 ? by : Deadline::InMs(ms);
}

absl::Status NoRoom(const std::vector<GpuWait>& waits) {
  Metadata metadata;
  if (!waits.empty()) {
    const GpuWait& short_of = waits.front();
    metadata = GpuAccount::Room{.free = short_of.free,
                                .booked = short_of.booked,
                                .reserved = short_of.reserved,
                                .ahead = short_of.ahead}
                   .Figures();
    metadata["gpu_uuid"] = short_of.uuid;
  }
  return Fail(absl::StatusCode::kResourceExhausted, "GPU_MEMORY", "the GPU memory is not free",
              metadata);
}

}  // namespace

GpuAccount::Booking::Booking(GpuAccount& account, Owner owner)
    : account_(account), owner_(std::move(owner)) {
  place_.priority = owner_.priority;
}

GpuAccount::Booking::~Booking() {
  Tell({});
  const MutexLock lock(account_.mu_);
  if (account_.queue_.Leave(place_)) account_.Bump();
  account_.Release(this);
}

void GpuAccount::Booking::Tell(std::vector<GpuWait> waits) {
  if (!owner_.waits || (waits.empty() && !told_)) return;
  told_ = !waits.empty();
  owner_.waits(std::move(waits));
}

absl::Status GpuAccount::Booking::Book(const ByGpu& needed, Deadline by) {
  std::vector<std::string> uuids;
  for (const auto& [uuid, bytes] : needed) uuids.push_back(uuid);
  const uint64_t before_ns = waited_ns_;
  const uint64_t begin_ns = MonotonicNs();
  bool waited = false;
  needed_ = needed;
  std::erase_if(needed_, [](const auto& gpu) { return gpu.second == 0; });
  {
    const MutexLock lock(account_.mu_);
    account_.queue_.Enter(place_, needed_, owner_.name, begin_ns);
    account_.Bump();
  }
  for (;;) {
    uint64_t seen;
    // In this order: what is taken between the two looks counts twice rather than not at all.
    const Taken others = account_.TakenByOthers(this, place_, &seen);
    const ByGpu resident = owner_.resident();
    const ByGpu free = account_.free_(uuids);
    const bool last = by.Passed() || owner_.gives_up();
    const ByGpu taken = others.Sum(last, owner_.last);
    const bool fits = Fits(needed, taken, free);
    std::vector<GpuWait> waits;
    for (const auto& [uuid, bytes] : needed) {
      if (Fits(uuid, bytes, taken, free)) continue;
      const auto count = others.ahead.count.find(uuid);
      waits.push_back({uuid, bytes, At(free, uuid), At(others.booked, uuid),
                       At(others.reserved, uuid), At(others.ahead.bytes, uuid),
                       count == others.ahead.count.end() ? 1 : count->second + 1, place_.priority,
                       double(MonotonicNs() - place_.since_ns) / 1e9});
    }
    Tell(last ? std::vector<GpuWait>{} : waits);

    const MutexLock lock(account_.mu_);
    if (waited) waited_ns_ = before_ns + MonotonicNs() - begin_ns;
    if (account_.closed_) {
      return Fail(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "parkaded is about to end");
    }
    const bool current = seen == account_.version_;
    if (fits && current) {
      account_.queue_.Leave(place_);
      account_.booked_[this] = {needed, resident, owner_.resident, false};
      account_.Bump();
      return absl::OkStatus();
    }
    // Who came, booked or left since the look counts too.
    if (last && !current) continue;
    if (last) return NoRoom(waits);
    account_.Release(this);
    waited = true;
    if (!fits) account_.changed_.WaitUntil(account_.mu_, Sooner(by, kLookMs));
  }
}

void GpuAccount::Booking::Promise(const ByGpu& needed) {
  const ByGpu resident = owner_.resident();
  const MutexLock lock(account_.mu_);
  account_.booked_[this] = {needed, resident, owner_.resident, true};
  ++account_.version_;
}

void GpuAccount::Booking::AwaitChange(Deadline by) {
  const uint64_t begin_ns = MonotonicNs();
  const Deadline until = Sooner(by, kRetryMs);
  const MutexLock lock(account_.mu_);
  account_.queue_.Enter(place_, needed_, owner_.name, begin_ns);
  account_.Release(this);
  const uint64_t seen = account_.version_;
  while (seen == account_.version_ && !account_.closed_ && !until.Passed()) {
    account_.changed_.WaitUntil(account_.mu_, until);
  }
  waited_ns_ += MonotonicNs() - begin_ns;
}

Metadata GpuAccount::Room::Figures() const {
  return {{"booked_bytes", std::to_string(booked)},
          {"reserved_bytes", std::to_string(reserved)},
          {"ahead_bytes", std::to_string(ahead)}};
}

GpuAccount::Room GpuAccount::RoomOn(const std::string& uuid, int32_t priority) const {
  uint64_t seen;
  GpuQueue::Place newcomer;
  newcomer.priority = priority;
  newcomer.ticket = UINT64_MAX;
  const Taken taken = TakenByOthers(nullptr, newcomer, &seen);
  Room room;
  room.booked = At(taken.booked, uuid);
  room.reserved = At(taken.reserved, uuid);
  room.ahead = At(taken.ahead.bytes, uuid);
  const ByGpu free = free_({uuid});
  if (const auto at = free.find(uuid); at != free.end()) room.free = at->second;
  return room;
}

GpuAccount::Room GpuAccount::WaitForRoom(const std::string& uuid, Bytes bytes, Deadline by,
                                         const std::function<bool()>& gives_up) {
  for (;;) {
    const Room room = RoomOn(uuid);
    if (room.HasFor(bytes) || !room.free || by.Passed() || gives_up()) return room;
    const MutexLock lock(mu_);
    if (closed_) return room;
    // Also where it changed since the look: the next one is soon enough.
    changed_.WaitUntil(mu_, Sooner(by, kLookMs));
  }
}

std::vector<GpuQueue::Waiter> GpuAccount::WaitersOn(const std::string& uuid) const {
  const MutexLock lock(mu_);
  return queue_.On(uuid);
}

GpuAccount::Taken GpuAccount::TakenByOthers(const Booking* booking, const GpuQueue::Place& place,
                                            uint64_t* version) const {
  std::vector<Booked> others;
  Taken taken;
  {
    const MutexLock lock(mu_);
    *version = version_;
    taken.ahead = queue_.AheadOf(place);
    for (const auto& [owner, booked] : booked_) {
      if (owner != booking) others.push_back(booked);
    }
  }
  // After the bookings: one that becomes a reservation counts twice rather than not at all.
  taken.reserved = reserved_();
  for (const Booked& booked : others) {
    ByGpu now = booked.resident();
    for (const auto& [uuid, bytes] : booked.bytes) {
      const Bytes had = At(booked.resident_before, uuid);
      const Bytes has = now[uuid] > had ? now[uuid] - had : 0;
      const Bytes still = bytes > has ? bytes - has : 0;
      taken.booked[uuid] += still;
      if (booked.promised) taken.promised[uuid] += still;
    }
  }
  return taken;
}

ByGpu GpuAccount::Taken::Sum(bool last, Booking::Last how) const {
  ByGpu sum = last && how == Booking::Last::kByDriver ? promised : booked;
  AddTo(sum, reserved);
  AddTo(sum, ahead.bytes);
  return sum;
}

void GpuAccount::Release(const Booking* booking) {
  if (booked_.erase(booking) != 0) Bump();
}

void GpuAccount::Bump() {
  ++version_;
  changed_.NotifyAll();
}

void GpuAccount::Changed() {
  const MutexLock lock(mu_);
  Bump();
}

void GpuAccount::Close() {
  const MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

}  // namespace parkade::daemon
