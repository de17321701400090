// MeasuredRates: how fast bytes moved lately, so that a dry run can say how long a move would take.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "common/bytes.h"
#include "common/mutex.h"
#include "proto/wire.h"

namespace parkade::daemon {

enum class Way { kOut, kIn };

class MeasuredRates {
 public:
  // What one process has moved. Moves of less than 64 MiB, whose time is that of other things, and
  // moves to both tiers say nothing.
  void Note(Way way, const wire::Stats& stats) EXCLUDES(mu_);
  // Seconds for these bytes of one process, at the rates noted last. Empty: one that it takes is
  // not known yet.
  std::optional<double> SecondsFor(Way way, Bytes host, Bytes disk) const EXCLUDES(mu_);

 private:
  static constexpr Bytes kLeast = 64_MiB;
  enum class Tier { kHost, kDisk };

  mutable Mutex mu_;  // innermost
  std::map<std::pair<Way, Tier>, double> bytes_per_second_ GUARDED_BY(mu_);
};

}  // namespace parkade::daemon
