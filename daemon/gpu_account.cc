// Books, and waits for the driver's figures.
#include "daemon/gpu_account.h"

#include <algorithm>
#include <utility>

#include "daemon/status.h"

namespace parkade::daemon {
namespace {

// What other programs free nobody announces: the driver is asked this often.
constexpr uint64_t kLookMs = 20;
constexpr uint64_t kRetryMs = 100;

bool Fits(const GpuAccount::ByGpu& needed, const GpuAccount::ByGpu& taken,
          const GpuAccount::ByGpu& free) {
  return std::all_of(needed.begin(), needed.end(), [&](const auto& gpu) {
    const auto has = free.find(gpu.first);
    const auto gone = taken.find(gpu.first);
    const Bytes others = gone == taken.end() ? 0 : gone->second;
    return has == free.end() || has->second >= gpu.second + others;
  });
}

Deadline Sooner(Deadline by, uint64_t ms) {
  return by.LeftNs() < ms * 1'000'000 ? by : Deadline::InMs(ms);
}

}  // namespace

GpuAccount::Booking::Booking(GpuAccount& account, Owner owner)
    : account_(account), owner_(std::move(owner)) {}

GpuAccount::Booking::~Booking() {
  const MutexLock lock(account_.mu_);
  account_.Release(this);
}

absl::Status GpuAccount::Booking::Book(const ByGpu& needed, Deadline by) {
  std::vector<std::string> uuids;
  for (const auto& [uuid, bytes] : needed) uuids.push_back(uuid);
  const uint64_t before_ns = waited_ns_;
  const uint64_t begin_ns = MonotonicNs();
  bool waited = false;
  for (;;) {
    uint64_t seen;
    // In this order: what is taken between the two looks counts twice rather than not at all.
    const Taken others = account_.BookedByOthers(this, &seen);
    const ByGpu resident = owner_.resident();
    const ByGpu free = account_.free_(uuids);
    const bool last = by.Passed() || owner_.gives_up();
    const bool fits =
        Fits(needed, others.all, free) || (last && Fits(needed, others.promised, free));

    const MutexLock lock(account_.mu_);
    if (waited) waited_ns_ = before_ns + MonotonicNs() - begin_ns;
    if (account_.closed_) {
      return Fail(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "parkaded is about to end");
    }
    if (fits && (last || seen == account_.version_)) {
      account_.booked_[this] = {needed, resident, owner_.resident, false};
      ++account_.version_;
      return absl::OkStatus();
    }
    if (last) {
      return Fail(absl::StatusCode::kResourceExhausted, "GPU_MEMORY",
                  "the GPU memory is not free; nothing was resumed");
    }
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
  account_.Release(this);
  const uint64_t seen = account_.version_;
  while (seen == account_.version_ && !account_.closed_ && !until.Passed()) {
    account_.changed_.WaitUntil(account_.mu_, until);
  }
  waited_ns_ += MonotonicNs() - begin_ns;
}

GpuAccount::Room GpuAccount::RoomOn(const std::string& uuid) const {
  uint64_t seen;
  Room room;
  room.booked = BookedByOthers(nullptr, &seen).all[uuid];
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

GpuAccount::Taken GpuAccount::BookedByOthers(const Booking* booking, uint64_t* version) const {
  std::vector<Booked> others;
  {
    const MutexLock lock(mu_);
    *version = version_;
    for (const auto& [owner, booked] : booked_) {
      if (owner != booking) others.push_back(booked);
    }
  }
  Taken left;
  for (const Booked& booked : others) {
    ByGpu now = booked.resident();
    for (const auto& [uuid, bytes] : booked.bytes) {
      const auto before = booked.resident_before.find(uuid);
      const Bytes had = before == booked.resident_before.end() ? 0 : before->second;
      const Bytes taken = now[uuid] > had ? now[uuid] - had : 0;
      const Bytes still = bytes > taken ? bytes - taken : 0;
      left.all[uuid] += still;
      if (booked.promised) left.promised[uuid] += still;
    }
  }
  return left;
}

void GpuAccount::Release(const Booking* booking) {
  if (booked_.erase(booking) == 0) return;
  ++version_;
  changed_.NotifyAll();
}

void GpuAccount::Changed() {
  const MutexLock lock(mu_);
  ++version_;
  changed_.NotifyAll();
}

void GpuAccount::Close() {
  const MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

}  // namespace parkade::daemon
