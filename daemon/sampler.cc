// Waits for events, or for the time of the next look.
#include "daemon/sampler.h"

#include <algorithm>
#include <utility>

namespace parkade::daemon {
namespace {

constexpr uint64_t kLeastMs = 50;    // between two looks, however much changes
constexpr uint64_t kSettleMs = 200;  // after a change: the driver's figures follow a little later
constexpr uint64_t kMovingMs = 500;  // while bytes move
constexpr uint64_t kQuietMs = 10'000;

bool Moves(const NodeSample& sample) {
  using wire::ProcessState;
  return std::any_of(sample.processes.begin(), sample.processes.end(),
                     [](const ProcessSample& process) {
                       const ProcessState state = process.view.state;
                       return state == ProcessState::kEvicting || state == ProcessState::kRestoring;
                     });
}

}  // namespace

Sampler::Sampler(Events& events, Look look, Tell tell)
    : look_(std::move(look)),
      tell_(std::move(tell)),
      watcher_(events.Watch()),
      thread_([this] { Loop(); }) {}

void Sampler::Loop() {
  while (watcher_ != nullptr && !watcher_->closed()) {
    const NodeSample sample = look_();
    tell_(sample);
    const Deadline least = Deadline::InMs(kLeastMs);
    const Deadline next = Deadline::InMs(Moves(sample) ? kMovingMs : kQuietMs);
    bool changed = false;
    while (!watcher_->closed() && !(changed ? least : next).Passed()) {
      changed |= watcher_->Next(changed ? least : next).has_value();
      changed |= watcher_->TakeLost();
    }
    if (!changed) continue;
    tell_(look_());
    // And once more, when what has changed has settled; more changes do not make that later.
    for (const Deadline settled = Deadline::InMs(kSettleMs);
         !watcher_->closed() && !settled.Passed();) {
      (void)watcher_->Next(settled);
      (void)watcher_->TakeLost();
    }
  }
}

}  // namespace parkade::daemon
