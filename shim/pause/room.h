// Room: how much HBM a restore in turn may take on each device, as the daemon allows it bit by bit.
#pragma once

#include <array>

#include "common/bytes.h"
#include "common/deadline.h"
#include "common/mutex.h"
#include "proto/wire.h"

namespace parkade::shim {

// Any thread.
class Room {
 public:
  // Nothing is allowed or taken any more.
  void Reset() EXCLUDES(mu_);
  // So much of a device in all, since Reset. Less than before has no effect, nor has a device that
  // cannot be.
  void Allow(int device, Bytes in_all) EXCLUDES(mu_);
  // False while that is not allowed; then nothing was taken.
  bool Take(int device, Bytes bytes) EXCLUDES(mu_);
  // Of what was taken: the driver had none.
  void Return(int device, Bytes bytes) EXCLUDES(mu_);
  // Waits until Take would succeed, or the deadline.
  void Await(int device, Bytes bytes, Deadline by) EXCLUDES(mu_);
  // Waits until more is allowed than now, or the deadline.
  void AwaitMore(int device, Deadline by) EXCLUDES(mu_);

 private:
  struct Device {
    Bytes allowed = 0;
    Bytes taken = 0;
  };
  static bool IsDevice(int device) { return device >= 0 && size_t(device) < wire::kMaxDevices; }

  Mutex mu_;  // innermost
  CondVar changed_;
  std::array<Device, wire::kMaxDevices> devices_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
