// Recovery: brings to an end what an earlier daemon was in the middle of when it ended.
//
// A pause that has left all of its processes paused counts as done; one that has paused only some
// of them is rolled back: those resume. A resume is finished. Each process is looked at when its
// shim has come back and it does not move by itself any more; for the verdict over a group the
// others are waited for 2 s at most.
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
  };
  // Claims the processes of what the journal has found interrupted, then works on a thread of its
  // own until all is done.
  explicit Recovery(Neighbours neighbours);
  ~Recovery() { Stop(); }

  // Waits until an interrupted operation of that user with that request id has been dealt with as
  // far as its processes are there, or until `by`. Returns at once where there is none.
  void Await(uid_t uid, const std::string& request_id, Deadline by) EXCLUDES(mu_);
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
  void Tell(const Interrupted& interrupted, const ProcessList& moved,
            const absl::Status& result) const;

  const Neighbours to_;
  const std::shared_ptr<Watcher> watcher_;
  Mutex mu_;  // innermost
  CondVar changed_;
  std::list<std::pair<uid_t, std::string>> awaited_ GUARDED_BY(mu_);  // ids not dealt with yet
  bool stopping_ GUARDED_BY(mu_) = false;
  std::list<Interrupted> interrupted_;  // the thread's
  std::thread thread_;
};

}  // namespace parkade::daemon
