// FakeJob: ranks that launch work and collectives, each in its order, so that a gate that closes
// between the launches of one collective leaves some of its ranks unable to drain.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "common/mutex.h"

namespace parkade::testing {

class FakeJob {
 public:
  static constexpr int kOwnWork = -1;

  // What a rank launches, over and over: kOwnWork, or the number of a communicator. A rank's
  // launches run one after the other; a collective, when it is next for all of its ranks.
  using Program = std::vector<int>;
  enum class Streams : uint8_t { kOne, kOneEach };
  // `communicators`: their ranks, by number. With a stream for each communicator nothing waits for
  // a collective but the next one on the same communicator.
  FakeJob(std::vector<Program> programs, std::map<int, std::vector<size_t>> communicators,
          Streams streams = Streams::kOne);

  // Any thread.
  void Launch(size_t rank, size_t count) EXCLUDES(mu_);
  size_t launched(size_t rank) const EXCLUDES(mu_);
  // All that the rank has launched has run.
  bool Drained(size_t rank) const EXCLUDES(mu_);
  // From now on the rank has no more to launch: its thread is elsewhere.
  void StopLaunching(size_t rank) EXCLUDES(mu_);
  bool launches(size_t rank) const EXCLUDES(mu_);

 private:
  struct Rank {
    Program program;
    size_t launched = 0;
    size_t done = 0;
    bool stopped = false;

    int next() const { return program[done % program.size()]; }
    bool waits() const { return done < launched; }
    size_t LaunchedOn(int communicator) const;
  };

  void RunWhatCan() REQUIRES(mu_);

  const std::map<int, std::vector<size_t>> communicators_;
  const Streams streams_;
  mutable Mutex mu_;  // innermost
  std::vector<Rank> ranks_ GUARDED_BY(mu_);
};

}  // namespace parkade::testing
