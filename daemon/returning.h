// Returning: the processes of an earlier daemon that this one is still to deal with. Orders about
// them wait a moment rather than be refused.
#pragma once

#include <set>

#include "common/deadline.h"
#include "common/mutex.h"
#include "daemon/registry.h"

namespace parkade::daemon {

class Returning {
 public:
  // It is known, and its shim has not come back yet.
  void Expect(const Process& process) EXCLUDES(mu_);
  // It is where it belongs, or there is no sense in waiting for it any longer.
  void Done(const Process& process) EXCLUDES(mu_);
  // Waits until none of these is expected any more, or until `by`: false.
  bool Await(const ProcessList& processes, Deadline by) EXCLUDES(mu_);
  // Ends every wait, now and later.
  void Close() EXCLUDES(mu_);

 private:
  Mutex mu_;  // innermost
  CondVar changed_;
  std::set<const Process*> expected_ GUARDED_BY(mu_);
};

}  // namespace parkade::daemon
