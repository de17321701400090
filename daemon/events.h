// Events: tells watchers what changes on the node. Publishing never waits for a watcher.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "common/deadline.h"
#include "common/mutex.h"
#include "daemon/process.h"

namespace parkade::daemon {

struct Event {
  enum class Kind { kPresent, kAppeared, kState, kProgress, kGone } kind;
  uint64_t time_ns;  // CLOCK_REALTIME
  ProcessView process;
};

// One watcher's queue.
class Watcher {
 public:
  // The next event; empty at the deadline, and at once when closed() or lost().
  std::optional<Event> Next(Deadline by) EXCLUDES(mu_);
  // The daemon is about to end.
  bool closed() const EXCLUDES(mu_);
  // Events were dropped because the queue was full; asking clears it. The watcher then has to look
  // at everything anew.
  bool TakeLost() EXCLUDES(mu_);

 private:
  friend class Events;
  static constexpr size_t kMost = 1024;

  void Put(const Event& event) EXCLUDES(mu_);
  void Close() EXCLUDES(mu_);

  mutable Mutex mu_;  // innermost
  CondVar put_;
  std::deque<Event> queue_ GUARDED_BY(mu_);
  bool lost_ GUARDED_BY(mu_) = false;
  bool closed_ GUARDED_BY(mu_) = false;
};

class Events {
 public:
  // Hears of every event that is published, one after the other and before the watchers; on the
  // publisher's thread.
  using Listener = std::function<void(const Event&)>;
  explicit Events(Listener listener = {}) : listener_(std::move(listener)) {}

  // Null when 64 watch already or the daemon is about to end. The watcher leaves by destroying it.
  std::shared_ptr<Watcher> Watch() EXCLUDES(mu_);
  // Reads the process's ledger; `state` overrides what it says. Of a process that has ended only
  // kGone is published.
  void Publish(Event::Kind kind, const Process& process,
               std::optional<wire::ProcessState> state = {}) EXCLUDES(mu_);
  // Ends every watch.
  void Close() EXCLUDES(mu_);

 private:
  static constexpr size_t kMostWatchers = 64;

  const Listener listener_;
  Mutex mu_;  // before the listener's, Process's and Watcher's
  std::list<std::weak_ptr<Watcher>> watchers_ GUARDED_BY(mu_);
  bool closed_ GUARDED_BY(mu_) = false;
};

Event MakeEvent(Event::Kind kind, ProcessView process);

}  // namespace parkade::daemon
