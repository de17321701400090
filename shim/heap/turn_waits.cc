// The list, with an eventfd to wake the agent.
#include "shim/heap/turn_waits.h"

#include <errno.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "common/deadline.h"

namespace parkade::shim {

Result<void> TurnWaits::Init() {
  SetHeard(false);
  fd_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd_) return OsError(errno, "eventfd");
  return {};
}

TurnWaits::Wait::Wait(TurnWaits& all, int device, Bytes bytes)
    : all_(all), device_(device), bytes_((bytes + kPage - 1) / kPage * kPage) {
  const bool counts = all_.takes_turns_ && device >= 0 && size_t(device) < wire::kMaxDevices;
  {
    MutexLock lock(all_.mu_);
    refused_ = !counts;
    if (!counts) return;
    all_.waits_.push_back(this);
  }
  eventfd_write(all_.fd_.get(), 1);
}

TurnWaits::Wait::~Wait() {
  {
    MutexLock lock(all_.mu_);
    if (all_.waits_.remove(this) == 0) return;
  }
  eventfd_write(all_.fd_.get(), 1);
}

void TurnWaits::Wait::NotEnough(Bytes free) {
  {
    MutexLock lock(all_.mu_);
    if (free < bytes_) return;
    bytes_ = (free / kPage + 1) * kPage;
  }
  eventfd_write(all_.fd_.get(), 1);
}

bool TurnWaits::Wait::goes_on() const {
  {
    MutexLock lock(all_.mu_);
    if (refused_) return false;
  }
  const uint64_t alone_since_ns = all_.alone_since_ns_.load(std::memory_order_relaxed);
  return alone_since_ns == 0 || MonotonicNs() - alone_since_ns < kAloneNs;
}

void TurnWaits::Empty() {
  eventfd_t count;
  (void)eventfd_read(fd_.get(), &count);
}

void TurnWaits::Read(uint64_t reading, Bytes (&bytes)[wire::kMaxDevices]) {
  std::fill(std::begin(bytes), std::end(bytes), 0);
  MutexLock lock(mu_);
  for (Wait* wait : waits_) {
    if (wait->refused_) continue;
    if (wait->first_reading_ == 0) wait->first_reading_ = reading;
    bytes[wait->device_] += wait->bytes_;
  }
}

size_t TurnWaits::Refuse(uint64_t reading) {
  MutexLock lock(mu_);
  size_t refused = 0;
  for (Wait* wait : waits_) {
    if (wait->refused_ || wait->first_reading_ == 0 || wait->first_reading_ > reading) continue;
    wait->refused_ = true;
    ++refused;
  }
  return refused;
}

void TurnWaits::SetHeard(bool heard) {
  alone_since_ns_.store(heard ? 0 : MonotonicNs(), std::memory_order_relaxed);
}

}  // namespace parkade::shim
