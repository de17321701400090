// NodeTimeline: what the node's memory held lately, what moved it and what its users were doing, in
// bounded memory.
//
// Only what changes is kept, so that quiet hours cost nothing.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "daemon/node_sample.h"
#include "daemon/selector.h"
#include "proto/timeline.pb.h"

namespace parkade::daemon {

class NodeTimeline {
 public:
  struct Limits {
    // Of 24 bytes: a day of 8 GPUs with three processes each, in five tags, that are all moved
    // every five minutes and followed while they move, is half a million.
    size_t points = 1'500'000;
    size_t operation_bytes = 16 << 20;
    size_t marks = 16'384;
    size_t series = 65'536;
  };
  // Hears of all that is added, in that order. Called with the lock held: it must not call back.
  using Sink = std::function<void(const v1::TimelineEntry&)>;

  explicit NodeTimeline(Limits limits, Sink sink = {}) : limits_(limits), sink_(std::move(sink)) {}

  // What all series are from that moment on; processes that are not in it hold nothing any more.
  // One that is older than the last is dropped.
  void Add(const NodeSample& sample) EXCLUDES(mu_);
  // Has ended.
  void Add(const v1::Operation& operation) EXCLUDES(mu_);
  // INVALID_ARGUMENT (BAD_REQUEST) for a name or job that is missing, too long or not printable,
  // and a kind that is none. The mark with its time.
  absl::StatusOr<v1::TimelineMark> Mark(const Caller& caller, const v1::MarkRequest& request)
      EXCLUDES(mu_);

  // All that the caller may see from `since_ns` to `until_ns` (CLOCK_REALTIME), a message at a
  // time, without the lock; false of `tell` ends it. What a series was before comes as a point at
  // `since_ns`.
  void Read(const Caller& caller, uint64_t since_ns, uint64_t until_ns,
            const std::function<bool(const v1::TimelineEntry&)>& tell) const EXCLUDES(mu_);

 private:
  struct Series {
    v1::TimelineSeries text;
    uid_t uid = 0;
    bool of_process = false;
    Bytes before = 0;  // of the last point that was forgotten
    Bytes last = 0;
    size_t points = 0;  // that are kept
  };
  struct Point {
    uint64_t time_ms;
    uint64_t bytes;
    uint32_t series;
  };
  // A process, by pid and start, so that another one with its number is another one; or none.
  using Key = std::tuple<int, uint64_t, int, std::string, std::string>;

  void Set(const Key& key, const std::function<Series()>& make, uint64_t time_ms, Bytes bytes,
           Bytes ignored) REQUIRES(mu_);
  void Append(uint32_t id, Series& series, uint64_t time_ms, Bytes bytes) REQUIRES(mu_);
  void AddProcess(const ProcessSample& process, uint64_t time_ms) REQUIRES(mu_);
  void Forget() REQUIRES(mu_);
  void Tell(v1::TimelineEntry entry) const REQUIRES(mu_) {
    if (sink_) sink_(entry);
  }

  const Limits limits_;
  const Sink sink_;
  mutable Mutex mu_;  // innermost
  std::map<Key, uint32_t> ids_ GUARDED_BY(mu_);
  std::map<uint32_t, Series> series_ GUARDED_BY(mu_);
  uint32_t next_id_ GUARDED_BY(mu_) = 1;
  std::set<uint32_t> touched_ GUARDED_BY(mu_);  // by the sample that is being added
  std::deque<Point> points_ GUARDED_BY(mu_);
  std::deque<v1::Operation> operations_ GUARDED_BY(mu_);
  size_t operation_bytes_ GUARDED_BY(mu_) = 0;
  std::deque<std::pair<v1::TimelineMark, uid_t>> marks_ GUARDED_BY(mu_);
  uint64_t last_ms_ GUARDED_BY(mu_) = 0;   // of the last sample
  uint64_t begin_ms_ GUARDED_BY(mu_) = 0;  // before this nothing is kept; 0: no sample yet
};

}  // namespace parkade::daemon
