// Bounded queues, one for each watcher.
#include "daemon/events.h"

#include <utility>

#include "daemon/wall_clock.h"

namespace parkade::daemon {

Event MakeEvent(Event::Kind kind, ProcessView process) {
  return {kind, WallClockNs(), std::move(process)};
}

std::optional<Event> Watcher::Next(Deadline by) {
  const MutexLock lock(mu_);
  while (queue_.empty() && !closed_ && !lost_ && !by.Passed()) put_.WaitUntil(mu_, by);
  if (queue_.empty()) return std::nullopt;
  Event event = std::move(queue_.front());
  queue_.pop_front();
  return event;
}

bool Watcher::closed() const {
  const MutexLock lock(mu_);
  return closed_;
}

bool Watcher::TakeLost() {
  const MutexLock lock(mu_);
  return std::exchange(lost_, false);
}

void Watcher::Put(const Event& event) {
  const MutexLock lock(mu_);
  if (queue_.size() >= kMost) {
    queue_.clear();
    lost_ = true;
  } else {
    queue_.push_back(event);
  }
  put_.NotifyAll();
}

void Watcher::Close() {
  const MutexLock lock(mu_);
  closed_ = true;
  put_.NotifyAll();
}

std::shared_ptr<Watcher> Events::Watch() {
  const MutexLock lock(mu_);
  watchers_.remove_if([](const auto& w) { return w.expired(); });
  if (closed_ || watchers_.size() >= kMostWatchers) return nullptr;
  auto watcher = std::make_shared<Watcher>();
  watchers_.push_back(watcher);
  return watcher;
}

void Events::Publish(Event::Kind kind, const Process& process,
                     std::optional<wire::ProcessState> state) {
  ProcessView view = process.View();
  if (state) view.state = *state;
  const Event event = MakeEvent(kind, std::move(view));
  const MutexLock lock(mu_);
  // It ends before kGone is published, so nothing comes after that.
  if (kind != Event::Kind::kGone && process.ended()) return;
  if (listener_) listener_(event);
  for (const auto& weak : watchers_) {
    if (const auto watcher = weak.lock()) watcher->Put(event);
  }
}

void Events::Close() {
  const MutexLock lock(mu_);
  closed_ = true;
  for (const auto& weak : watchers_) {
    if (const auto watcher = weak.lock()) watcher->Close();
  }
}

}  // namespace parkade::daemon
