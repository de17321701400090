// Pace: how much HBM those who come in may take at each moment of a handoff.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/gpu_account.h"
#include "daemon/member.h"
#include "daemon/orders.h"

namespace parkade::daemon {

class Pace {
 public:
  // More than the larger side, so that a handle can come in while the next goes out: two of the
  // largest.
  static constexpr Bytes kMargin = 1_GiB;

  // Before the first byte moves. `free` is the driver's word, by GPU; those that it does not know
  // are left out. `out` and `in` outlive it.
  Pace(std::span<const Member> out, std::span<const Member> in, Overlap overlap,
       const GpuAccount::ByGpu& free);

  // Looks at the ledgers, and tells those who come in what they may have by now; `all_out`: nothing
  // more will be released.
  void Look(bool all_out);

  // The most that both sides had at once, of all looks, and what they might; 0: no bound.
  Bytes PeakOn(const std::string& uuid) const;
  Bytes AllowedOn(const std::string& uuid) const;

 private:
  struct Gpu {
    Bytes out_at_start = 0;
    Bytes in_at_start = 0;
    Bytes needed = 0;  // by those who come in
    std::optional<Bytes> free;
    Bytes bound = 0;  // of both sides together; 0: none
    Bytes peak = 0;
  };
  struct Share {  // of one who comes in, on one device
    const Member* member;
    int device;  // ordinal in the process
    std::string uuid;
    Bytes needed;
    Bytes told = 0;
  };

  Bytes Room(const Gpu& gpu, Bytes out_now, bool all_out) const;

  const std::span<const Member> out_, in_;
  const Overlap overlap_;
  std::map<std::string, Gpu> gpus_;
  std::vector<Share> shares_;
};

}  // namespace parkade::daemon
