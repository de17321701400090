// Sampler: looks at the node for its timeline, at each change, while bytes move, and now and then.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "daemon/events.h"
#include "daemon/node_sample.h"

namespace parkade::daemon {

class Sampler {
 public:
  // Asked for a look at the node, which may take some ms; on the sampler's thread.
  using Look = std::function<NodeSample()>;
  using Tell = std::function<void(const NodeSample&)>;

  // Begins at once. Ends when `events`, which outlives it, is closed.
  Sampler(Events& events, Look look, Tell tell);
  ~Sampler() { thread_.join(); }
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

 private:
  void Loop();

  const Look look_;
  const Tell tell_;
  const std::shared_ptr<Watcher> watcher_;
  std::thread thread_;
};

}  // namespace parkade::daemon
