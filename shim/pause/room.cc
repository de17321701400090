// Counts, and wakes who waits.
#include "shim/pause/room.h"

namespace parkade::shim {

void Room::Reset() {
  MutexLock lock(mu_);
  devices_ = {};
}

void Room::Allow(int device, Bytes in_all) {
  MutexLock lock(mu_);
  if (!IsDevice(device) || in_all <= devices_[size_t(device)].allowed) return;
  devices_[size_t(device)].allowed = in_all;
  changed_.NotifyAll();
}

bool Room::Take(int device, Bytes bytes) {
  MutexLock lock(mu_);
  if (!IsDevice(device)) return false;
  Device& d = devices_[size_t(device)];
  if (d.allowed - d.taken < bytes) return false;
  d.taken += bytes;
  return true;
}

void Room::Return(int device, Bytes bytes) {
  MutexLock lock(mu_);
  if (IsDevice(device)) devices_[size_t(device)].taken -= bytes;
}

void Room::Await(int device, Bytes bytes, Deadline by) {
  MutexLock lock(mu_);
  if (!IsDevice(device)) return;
  const Device& d = devices_[size_t(device)];
  while (d.allowed - d.taken < bytes && !by.Passed()) changed_.WaitUntil(mu_, by);
}

void Room::AwaitMore(int device, Deadline by) {
  MutexLock lock(mu_);
  if (!IsDevice(device)) return;
  const Device& d = devices_[size_t(device)];
  const Bytes before = d.allowed;
  while (d.allowed == before && !by.Passed()) changed_.WaitUntil(mu_, by);
}

}  // namespace parkade::shim
