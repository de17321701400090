// Recovery: brings to an end what an earlier daemon was in the middle of when it ended.
//
// A pause that has left all of its processes paused counts as done; one that has paused only some
// of them is rolled back: those resume. A resume is finished. Each process is looked at when its
// shim has come back and it does not move by itself any more; for the verdict over a group the
// others are waited for 2 s at most. Before that the driver is asked about processes that were
// deep. So long orders wait, too, for processes that are known and not there yet. One that has not
// connected after a minute stays as it is, free for new orders.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/deadline.h"
#include "common/mutex.h"
#include "daemon/events.h"
#include "daemon/journal.h"
#include "daemon/node_state.h"
#include "daemon/registry.h"
#include "daemon/returning.h"

namespace parkade::daemon {

// The processes that an earlier daemon knew and that are provably alive, for the registry: not
// connected, with their last known state. The others the journal forgets.
ProcessList Revive(Journal& journal);

class Recovery {
 public:
  // All outlive it.
  struct Neighbours {
    Registry& registry;
    Events& events;
    NodeState& node;
    Journal& journal;
    Returning& returning;
  };
  struct Limits {
    uint64_t come_back_ms = 2000;  // a shim tries to connect again at least every second
    uint64_t give_up_ms = 60'000;  // one that is stopped, or another program by now
  };
  // Everything in the registry is taken for a process of an earlier daemon. Claims those of what
  // the journal has found interrupted, then works on a thread of its own until all is done.
  explicit Recovery(Neighbours neighbours, Limits limits);
  ~Recovery() { Stop(); }

  void Stop() EXCLUDES(mu_);

 private:
  struct Party {
    std::shared_ptr<Process> process;
    Registry::Claim claim;  // held until it has been dealt with
  };
  struct Interrupted {
    BegunOperation operation;
    std::list<Party> parties;        // not dealt with yet
    std::optional<bool> bring_back;  // the verdict
  };

  void Loop();
  // Goes on as far as it can now. False: all its processes are dealt with.
  bool Advance(Interrupted& interrupted, bool all_had_time);
  void Judge(Interrupted& interrupted) const;
  // Lets go of those that are not connected, for good.
  void GiveUp(Interrupted& interrupted);
  // Lets go of those that nothing was interrupted for, once they are there.
  void Release(bool all_had_time);
  void Tell(const Interrupted& interrupted, const ProcessList& moved,
            const absl::Status& result) const;

  const Neighbours to_;
  const Limits limits_;
  const std::shared_ptr<Watcher> watcher_;
  Mutex mu_;  // innermost
  bool stopping_ GUARDED_BY(mu_) = false;
  // The thread's.
  std::list<Interrupted> interrupted_;
  ProcessList others_;  // known and not there yet
  ProcessList marked_;  // that the driver's checkpoint may have
  std::thread thread_;
};

}  // namespace parkade::daemon
